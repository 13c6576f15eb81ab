//! Running the built program.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rereduce::db::{Database, DatabaseOptions};
use rereduce::env::Env;
use tempfile::TempDir;

/// A directory of its own, the program to run in it, and perhaps a bug planted in that.
pub(crate) struct Desk {
    directory: TempDir,
    planted: Option<&'static str>,
}

/// How a run of the program ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: std::process::Output) -> Ran {
        Ran {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The output of a run that succeeded.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert_eq!((self.code, &*self.err), (Some(0), ""), "{self:?}");
        self.out
    }

    /// Whether it failed as a command must: this code, one line that says `what`.
    pub(crate) fn failed_with(&self, code: i32, what: &str) -> bool {
        self.code == Some(code) && self.err.lines().count() == 1 && self.err.contains(what)
    }

    #[track_caller]
    pub(crate) fn fails(&self, code: i32, what: &str) {
        assert!(self.failed_with(code, what), "expected {code} and {what:?}: {self:?}");
    }
}

impl Desk {
    pub(crate) fn new() -> Desk {
        Desk { directory: tempfile::tempdir().unwrap(), planted: None }
    }

    pub(crate) fn with_planted(bug: &'static str) -> Desk {
        Desk { planted: Some(bug), ..Desk::new() }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    /// The program with these arguments, not started yet; it runs in the directory.
    pub(crate) fn command<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rereduce"));
        self.prepare(&mut command);
        command.args(arguments);
        command
    }

    /// A line for the shell, in which the program is `$0`.
    pub(crate) fn shell(&self, script: &str) -> Ran {
        let mut command = Command::new("sh");
        self.prepare(&mut command);
        command.args(["-c", script, env!("CARGO_BIN_EXE_rereduce")]);
        Ran::of(command.output().unwrap())
    }

    fn prepare(&self, command: &mut Command) {
        command.current_dir(self.directory()).stdin(Stdio::null());
        if let Some(bug) = self.planted {
            command.env("REREDUCE_PLANTED", bug);
        }
    }

    /// Runs a command line; words are separated by spaces.
    pub(crate) fn run(&self, line: &str) -> Ran {
        Ran::of(self.command(line.split(' ')).output().unwrap())
    }

    pub(crate) fn run_with_input(&self, line: &str, input: &[u8]) -> Ran {
        let mut child = self.start(line);
        // The program may end before it read everything.
        let _ = child.stdin.take().unwrap().write_all(input);
        Ran::of(child.wait_with_output().unwrap())
    }

    /// Starts a command line with pipes all around.
    pub(crate) fn start(&self, line: &str) -> Child {
        let mut command = self.command(line.split(' '));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// The database, opened by the library.
    pub(crate) fn open(&self, name: &str) -> rereduce::Result<Database> {
        Database::open_read_only(Env::real(), &self.path(name), DatabaseOptions::default())
    }

    /// The revision of a document.
    #[track_caller]
    pub(crate) fn rev(&self, db: &str, id: &str) -> String {
        let document = self.open(db).unwrap().snapshot().unwrap().document(id, None).unwrap();
        document.rev().unwrap().to_string()
    }

    /// The names in the directory, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Sends a signal, by the command that everybody has.
pub(crate) fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
}

/// A file of `tests/data`.
pub(crate) fn data(name: &str) -> String {
    format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}
