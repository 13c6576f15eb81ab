//! Other processes: this test binary runs itself again with a task in its environment.
//!
//! ```text
//! parent  runs the one test below, with CHILD_TASK and CHILD_PATH
//! child   does its task; each line of its answer begins with "> "
//! ```
//!
//! Invariant: without a task the child's test does nothing, so that it may be run with the others.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rereduce::db::{Database, DatabaseOptions};
use rereduce::env::Env;

use crate::support::{Kind, View, unwatched};

const TASK: &str = "CHILD_TASK";
const PATH: &str = "CHILD_PATH";

/// What a child is asked to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// Open for writing, and say how that went.
    Lock,
    /// Follow commands on its input: `look`, `hold`, `held`.
    Follow,
    /// Commit 1, 2, 3, ... for ever, and say each that is acknowledged.
    Write,
    /// Compact, and say how many bytes that took.
    Compact,
}

/// A child at work.
pub(crate) struct Worker {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) fn begin(task: Task, kind: Kind, path: &Path) -> Worker {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "children::the_child_of_another_test", "--nocapture"])
            .env(TASK, format!("{task:?} {kind:?}"))
            .env(PATH, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Worker { child, input, output: BufReader::new(output).lines() }
    }

    /// The next line of its answer; `None` once it has ended.
    pub(crate) fn answer(&mut self) -> Option<String> {
        // The harness prints lines of its own, and begins some without ending them.
        self.output.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, answer) = line.split_once("> ")?;
            Some(answer.to_owned())
        })
    }

    pub(crate) fn ask(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").unwrap();
        self.answer().unwrap()
    }

    /// Kills it in the middle of what it does.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.answer()).collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Rows after commit `number` of [`Task::Write`].
pub(crate) fn rows_after(number: u64) -> crate::support::Rows {
    let first = number.saturating_sub(9).max(1);
    (first..=number).map(|n| (format!("k{}", n % 10), n.to_string())).collect()
}

#[test]
fn the_child_of_another_test() {
    let (Ok(task), Ok(path)) = (std::env::var(TASK), std::env::var(PATH)) else { return };
    let path = PathBuf::from(path);
    let kind = if task.ends_with("Store") { Kind::Store } else { Kind::Database };
    match task.split(' ').next() {
        Some("Lock") => match kind.small().open_at(&Env::real(), &path) {
            Ok(_) => println!("> opened"),
            Err(error) => println!("> {:?}", error.class()),
        },
        Some("Follow") => follow(kind, &path),
        Some("Write") => write(kind, &path),
        Some("Compact") => compact(&path),
        _ => panic!("no task {task:?}"),
    }
}

fn follow(kind: Kind, path: &Path) {
    let handle = kind.small().read_at(&Env::real(), path).unwrap();
    let mut held: Option<View> = None;
    for line in std::io::stdin().lines() {
        let view = handle.view().unwrap();
        match line.unwrap().as_str() {
            "hold" => held = Some(view),
            "held" => answer(held.as_ref().unwrap()),
            _ => answer(&view),
        }
    }
}

/// One line: number, whether it is witnessed, rows.
fn answer(view: &View) {
    let (number, witnessed) = (view.number(), view.is_witnessed().unwrap());
    println!("> {number} {witnessed} {:?}", view.rows().unwrap());
}

fn write(kind: Kind, path: &Path) {
    let handle = kind.small().open_at(&Env::real(), path).unwrap();
    for number in handle.number() + 1.. {
        assert_eq!(handle.put(&format!("k{}", number % 10), &number.to_string()).unwrap(), number);
        println!("> {number}");
    }
}

fn compact(path: &Path) {
    let options = DatabaseOptions { cache_bytes: 256 << 10, ..DatabaseOptions::default() };
    let db = Database::open(Env::real(), path, options).unwrap();
    let before = crate::ALLOCATOR.allocated();
    db.compact(&mut unwatched()).unwrap();
    let most = crate::ALLOCATOR.max_allocated();
    println!("> {}", most.saturating_sub(before));
    assert!(db.snapshot().unwrap().check().unwrap().is_sound());
}
