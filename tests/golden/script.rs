//! Reading scripts, running them, and comparing or rewriting what they say.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What runs the commands of one script.
pub(crate) trait Layer {
    /// Runs one command; the answer may have several lines or none.
    fn run(&mut self, line: &str) -> Result<String, String>;
}

/// Comments and commands, and what was answered to them.
struct Section {
    comments: Vec<String>,
    commands: Vec<String>,
    answers: String,
}

/// Runs all scripts of a directory and says what differs; with `update`, rewrites them instead.
pub(crate) fn run_all(
    directory: &str,
    layer: impl Fn() -> Box<dyn Layer>,
    update: bool,
) -> Vec<String> {
    // crash-sim runs the scripts too, and its own folder lies below the one of the tests.
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut scripts = folders.map(|folder| folder.join("tests/golden/scripts").join(directory));
    let entries = std::fs::read_dir(scripts.find(|path| path.is_dir()).unwrap()).unwrap();
    let mut scripts: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    assert!(!scripts.is_empty(), "{directory} has no scripts");
    scripts.iter().filter_map(|script| run_script(script, &mut *layer(), update)).collect()
}

fn run_script(path: &Path, layer: &mut dyn Layer, update: bool) -> Option<String> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let sections = parse(&text);
    assert!(text.starts_with("# "), "{name} begins with a comment that says what it shows");
    let mut written = String::new();
    for section in &sections {
        let mut answers = String::new();
        for command in &section.commands {
            let answer = layer.run(command).unwrap_or_else(|refused| format!("refused: {refused}"));
            assert!(!answer.contains("\n\n"), "{name}: an answer has an empty line");
            for line in answer.lines() {
                answers += line.trim_end();
                answers.push('\n');
            }
        }
        let separator = if written.is_empty() { "" } else { "\n" };
        let asked: Vec<&str> =
            section.comments.iter().chain(&section.commands).map(String::as_str).collect();
        let _ = write!(written, "{separator}{}\n---\n{answers}", asked.join("\n"));
    }
    if update {
        std::fs::write(path, written).unwrap();
        return None;
    }
    (written != text).then(|| difference(&name, &text, &written))
}

fn parse(text: &str) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut lines = text.lines().peekable();
    while lines.peek().is_some() {
        let mut section =
            Section { comments: Vec::new(), commands: Vec::new(), answers: String::new() };
        for line in lines.by_ref().take_while(|line| *line != "---") {
            match line {
                "" => {}
                comment if comment.starts_with('#') => section.comments.push(comment.to_string()),
                command => section.commands.push(command.to_string()),
            }
        }
        for line in lines.by_ref().take_while(|line| !line.is_empty()) {
            section.answers += line;
            section.answers.push('\n');
        }
        sections.push(section);
    }
    sections
}

/// The first line that differs, with the section's commands above it.
fn difference(name: &str, before: &str, now: &str) -> String {
    let (old, new) = (parse(before), parse(now));
    let differs = old.iter().zip(&new).find(|(old, new)| old.answers != new.answers);
    match differs {
        Some((old, new)) => format!(
            "{name}: after\n{}\nit says\n{}instead of\n{}",
            new.commands.join("\n"),
            new.answers,
            old.answers
        ),
        None => format!("{name}: its layout is not what UPDATE_GOLDEN=1 writes"),
    }
}
