//! `cargo oracle NAME [--quick] [--seed S|fresh] [--json FILE]`: runs a campaign and prints its
//! figures as the last line of standard output. Exit code 0 only if nothing failed and the floor
//! was reached; 1 if something failed, 2 for wrong usage, 130 after Ctrl-C.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use rereduce_crash_sim::{CAMPAIGNS, Context};

/// Arguments of single campaigns that take no value.
const FLAGS: [&str; 2] = ["nested", "storage"];

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, String> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or_else(usage)?;
    let campaign = CAMPAIGNS.iter().find(|campaign| campaign.name == name).ok_or_else(usage)?;
    let (context, json) = parse(arguments)?;
    let stop = context.stop.clone();
    ctrlc::set_handler(move || {
        if stop.swap(true, Ordering::Relaxed) {
            // Asked twice: the figures are not worth waiting for.
            std::process::exit(130);
        }
    })
    .map_err(|error| format!("cannot listen to Ctrl-C: {error}"))?;
    let figures = (campaign.run)(&context)?;
    if let Some(path) = json {
        std::fs::write(&path, figures.to_json() + "\n")
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    println!("{figures}");
    Ok(match (figures.interrupted, figures.succeeded()) {
        (true, _) => ExitCode::from(130),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}

fn parse(
    mut arguments: impl Iterator<Item = String>,
) -> Result<(Context, Option<PathBuf>), String> {
    // Cargo says where the crate is; without cargo, run it from the repository.
    let home = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| "crash-sim".into());
    let mut context = Context::new(PathBuf::from(home).join("workloads"));
    let mut json = None;
    while let Some(argument) = arguments.next() {
        let Some(name) = argument.strip_prefix("--") else {
            return Err(format!("what is {argument:?}?\n{}", usage()));
        };
        if name == "quick" {
            context.quick = true;
            continue;
        }
        if FLAGS.contains(&name) {
            context.arguments.push((name.to_owned(), String::new()));
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("--{name} needs a value"))?;
        match name {
            "seed" if value == "fresh" => {
                // Whoever wants to see it again finds the number here.
                context.seed = RandomState::new().hash_one(value) >> 32;
                println!("seed {}", context.seed);
            }
            "seed" => {
                let expected = "--seed takes a number, or `fresh` for one never used before";
                context.seed = value.parse().map_err(|_| expected)?;
            }
            "json" => json = Some(PathBuf::from(value)),
            "workloads" => context.workloads = PathBuf::from(value),
            _ => context.arguments.push((name.to_owned(), value)),
        }
    }
    Ok((context, json))
}

fn usage() -> String {
    let mut text = "usage: cargo oracle NAME [--quick] [--seed S|fresh] [--json FILE]\n".to_owned();
    for campaign in CAMPAIGNS {
        text.push_str(&format!("  {:<10} {}\n", campaign.name, campaign.about));
    }
    text
}
