//! The command line: `rereduce COMMAND DB [ARG...]`.
//!
//! One file a command; `outcome` says how a command can end, `output` is the only way to standard
//! output, `opening` opens databases, `signal` listens to Ctrl-C.
//!
//! Invariant: a command that does not exit with 0 has written one line to standard error that says
//! what is wrong and what to do (`spec/cli.md` has the exit codes).

mod attach;
mod backup;
mod changes;
mod check;
mod compact;
mod delete;
mod dump;
mod get;
mod history;
mod info;
mod input;
mod inspect;
mod load;
mod opening;
mod outcome;
mod output;
mod purge;
mod put;
mod signal;
mod tour;
mod view;
#[cfg(feature = "javascript")]
mod view_server;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use rereduce::vocabulary::Json;

use outcome::{Failure, Outcome};
use output::Output;

/// A document database in one file: CouchDB's storage engine, to be used, tested and taken apart.
#[derive(Parser)]
#[command(
    name = "rereduce",
    disable_version_flag = true,
    after_help = "Exit codes: 0 done, 1 the answer is no (missing, conflict, damage found), \
                  2 wrong usage,\n3 the system refused (also: locked, disk full), 4 not a sound \
                  database, 130 interrupted.\n\nBegin with `rereduce tour`."
)]
struct CommandLine {
    /// Answer in JSON, for programs
    #[arg(long, global = true)]
    json: bool,
    /// Print the version
    #[arg(short = 'V', long)]
    version: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Tour(tour::Tour),
    Load(load::Load),
    Get(get::Get),
    Put(put::Put),
    Delete(delete::Delete),
    Changes(changes::Changes),
    Info(info::Info),
    History(history::History),
    Check(check::Check),
    Compact(compact::Compact),
    Purge(purge::Purge),
    Backup(backup::Backup),
    Dump(dump::Dump),
    Attach(attach::Attach),
    Detach(attach::Detach),
    Inspect(inspect::Inspect),
    View(Box<view::View>),
    #[cfg(feature = "javascript")]
    ViewServer(view_server::ViewServer),
}

fn main() -> ExitCode {
    plant();
    let result = run();
    match result {
        Ok(()) | Err(Failure::PipeClosed) => ExitCode::SUCCESS,
        Err(Failure::Said { code, message }) => {
            eprintln!("rereduce: {}", outcome::one_line(&message));
            ExitCode::from(code)
        }
    }
}

fn run() -> Outcome {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(error) => return refuse(&error),
    };
    let out = &mut Output::new(line.json);
    match line.command {
        _ if line.version => print_version(out)?,
        None => out.text(&CommandLine::command().render_help())?,
        Some(command) => command.run(out)?,
    }
    out.flush()
}

impl Command {
    fn run(self, out: &mut Output) -> Outcome {
        match self {
            Command::Tour(tour) => tour.run(out),
            Command::Load(load) => load.run(out),
            Command::Get(get) => get.run(out),
            Command::Put(put) => put.run(out),
            Command::Delete(delete) => delete.run(out),
            Command::Changes(changes) => changes.run(out),
            Command::Info(info) => info.run(out),
            Command::History(history) => history.run(out),
            Command::Check(check) => check.run(out),
            Command::Compact(compact) => compact.run(out),
            Command::Purge(purge) => purge.run(out),
            Command::Backup(backup) => backup.run(out),
            Command::Dump(dump) => dump.run(out),
            Command::Attach(attach) => attach.run(out),
            Command::Detach(detach) => detach.run(out),
            Command::Inspect(inspect) => inspect.run(out),
            Command::View(view) => view.run(out),
            #[cfg(feature = "javascript")]
            Command::ViewServer(server) => server.run(out),
        }
    }
}

/// Asking for help is no mistake; everything else that cannot be parsed is one, told in a line.
// spec: CLI-2
fn refuse(error: &clap::Error) -> Outcome {
    if !error.use_stderr() {
        let out = &mut Output::new(false);
        out.text(&error.render())?;
        return out.flush();
    }
    let text = error.render().to_string();
    // Clap says what is wrong in the first paragraph and goes on with usage and tips.
    let wrong = text.split("\n\n").next().unwrap_or_default();
    let wrong = wrong.trim_start_matches("error: ");
    Err(Failure::usage(format!("{wrong}; try `rereduce --help`")))
}

fn print_version(out: &mut Output) -> Outcome {
    let (version, planted) = (env!("CARGO_PKG_VERSION"), cfg!(feature = "planted"));
    if out.is_json() {
        return out.json(&output::object([
            ("version", Json::from(version)),
            ("planted", Json::Bool(planted)),
        ]));
    }
    let note = if planted { " (a test build: bugs can be planted in it)" } else { "" };
    out.line(format_args!("rereduce {version}{note}"))
}

/// In test builds an environment variable switches a planted bug on, so that tests of this program
/// can show that they are able to fail.
#[cfg(feature = "planted")]
fn plant() {
    if let Ok(name) = std::env::var("REREDUCE_PLANTED") {
        rereduce::mark::plant(Some(name.leak()));
    }
}

#[cfg(not(feature = "planted"))]
fn plant() {}
