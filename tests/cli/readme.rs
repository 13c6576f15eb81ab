//! The README keeps its word: its command lines are run, in order, and print what it shows.

use std::process::Command;

use super::support::{Desk, Ran, data};

/// A command line and the lines that it prints; `…` stands for anything.
struct Example {
    command: String,
    shown: Vec<String>,
}

/// The examples in all blocks of kind `console`: lines that begin with `$ ` and what follows them.
fn examples(text: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            found.push(Example { command: command.to_string(), shown: Vec::new() });
        } else if inside && let Some(last) = found.last_mut() {
            last.shown.push(line.to_string());
        }
    }
    found
}

/// Whether `line` is `pattern` with something in place of each `…`.
fn matches(line: &str, pattern: &str) -> bool {
    let mut rest = line;
    let mut parts = pattern.split('…').enumerate().peekable();
    while let Some((at, part)) = parts.next() {
        let found = match (at, parts.peek().is_none()) {
            (0, true) => return line == pattern,
            (0, false) => rest.starts_with(part).then_some(0),
            (_, true) => return rest.ends_with(part),
            (_, false) => rest.find(part),
        };
        let Some(found) = found else { return false };
        rest = &rest[found + part.len()..];
    }
    true
}

// It shows functions in JavaScript.
#[cfg(feature = "javascript")]
#[test]
fn the_readme_shows_what_the_commands_print() {
    let readme = std::fs::read_to_string(format!("{}/README.md", env!("CARGO_MANIFEST_DIR")));
    let readme = readme.unwrap();
    let desk = Desk::new();
    std::fs::copy(data("seattle-weather.csv"), desk.path("seattle-weather.csv")).unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_rereduce"));
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let examples = examples(&readme);
    assert!(examples.len() >= 10, "the README has a worked example");
    for Example { command, shown } in examples {
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).current_dir(desk.directory()).env("PATH", &path);
        let ran = Ran::of(shell.output().unwrap());
        let printed: Vec<&str> = ran.out.lines().chain(ran.err.lines()).collect();
        let fits = printed.len() == shown.len()
            && printed.iter().zip(&shown).all(|(line, pattern)| matches(line, pattern));
        assert!(fits, "$ {command}\nprints\n{}\nnot\n{}", printed.join("\n"), shown.join("\n"));
    }
}

#[test]
fn the_readme_names_files_that_are_there() {
    let root = env!("CARGO_MANIFEST_DIR");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).unwrap();
    for link in readme.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
        if !link.starts_with("http") && !link.starts_with('#') {
            assert!(std::path::Path::new(root).join(link).exists(), "{link}");
        }
    }
}

#[test]
fn a_pattern_fits_what_it_should() {
    for (line, pattern) in [("a", "a"), ("abc", "a…"), ("abc", "…c"), ("abcd", "a…c…"), ("", "…")]
    {
        assert!(matches(line, pattern), "{line} {pattern}");
    }
    for (line, pattern) in [("a", "b"), ("abc", "b…"), ("abc", "…b"), ("abcd", "a…x…")] {
        assert!(!matches(line, pattern), "{line} {pattern}");
    }
}
