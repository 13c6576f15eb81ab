//! The real program as a child: how it is found, started, fed, killed and asked afterwards.
//!
//! Invariant: nothing of the database is opened in this process; what is known of it is what the
//! program prints, before and after its death.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;

use super::log::SentLog;

/// How a run of the program ended.
pub(super) struct Ran {
    pub(super) status: ExitStatus,
    pub(super) out: String,
    pub(super) err: String,
}

impl Ran {
    /// Whether it failed as a command must: this exit code, and one line that says why.
    pub(super) fn refused(&self, code: i32) -> Result<(), String> {
        match self.status.code() == Some(code) && self.err.lines().count() == 1 {
            true => Ok(()),
            false => Err(format!("expected exit code {code} and one line: {self}")),
        }
    }

    /// Whether it succeeded.
    pub(super) fn done(&self) -> Result<&str, String> {
        if self.status.success() { Ok(&self.out) } else { Err(self.to_string()) }
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.status, self.err.trim_end())
    }
}

/// The program, and a directory of its own that vanishes in the end.
pub(super) struct Desk {
    pub(super) program: PathBuf,
    directory: PathBuf,
    /// A bug to plant in the program, to see that it is noticed.
    planted: Option<String>,
}

impl Desk {
    /// An empty directory in `parent`.
    pub(super) fn new(
        program: &Path,
        parent: &Path,
        name: &str,
        planted: Option<&str>,
    ) -> Result<Desk, String> {
        // Several campaigns may run in one process.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let (process, made) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let directory = parent.join(format!("rereduce-kill-{process}-{made}-{name}"));
        let failed = |error| format!("cannot make {}: {error}", directory.display());
        std::fs::create_dir(&directory).map_err(failed)?;
        let (program, planted) = (program.to_path_buf(), planted.map(str::to_owned));
        Ok(Desk { program, directory, planted })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The program with these words.
    pub(super) fn program(&self, words: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words.split_whitespace());
        self.prepare(&mut command);
        command
    }

    /// A shell that runs `script`, in which `$0` is the program.
    pub(super) fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&self.program);
        self.prepare(&mut command);
        command
    }

    fn prepare(&self, command: &mut Command) {
        command.current_dir(&self.directory).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(bug) = &self.planted {
            command.env("REREDUCE_PLANTED", bug);
        }
    }

    /// Runs a command to its end.
    pub(super) fn run(&self, mut command: Command) -> Result<Ran, String> {
        let output = command.output().map_err(|error| self.cannot_start(&error))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Ran { status: output.status, out: text(output.stdout), err: text(output.stderr) })
    }

    pub(super) fn start(&self, command: &mut Command) -> Result<Child, String> {
        command.spawn().map_err(|error| self.cannot_start(&error))
    }

    fn cannot_start(&self, error: &std::io::Error) -> String {
        format!("cannot start {}: {error}", self.program.display())
    }

    /// What the database called `name` holds now: it checks out, and holds what the log says.
    /// A batch that turned out to be there counts as acknowledged, all others as never sent.
    pub(super) fn judge(&self, name: &str, log: &mut SentLog) -> Result<usize, String> {
        let exists = self.path(name).exists();
        if !exists && log.sure_documents() == 0 {
            log.give_up();
            return Ok(0);
        }
        self.run(self.program(&format!("check {name}")))?.done()?;
        let dumped = self.run(self.program(&format!("dump {name} --all")))?;
        let doubtful = log.judge(dumped.done()?)?;
        log.acknowledge(doubtful);
        log.give_up();
        Ok(doubtful)
    }

    /// Feeds `command`, a load with batches of `size` documents, with up to `batches` batches and
    /// notes what it acknowledges; `acknowledged` learns of each and may kill. Comes back when the
    /// child is dead.
    pub(super) fn feed(
        &self,
        command: &mut Command,
        log: &mut SentLog,
        (size, batches): (usize, usize),
        mut acknowledged: impl FnMut(usize, &mut Child),
    ) -> Result<Ran, String> {
        let mut child = self.start(command.stdin(Stdio::piped()))?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(mut stderr)) = (stdin, stdout, stderr) else {
            return Err("the child has no pipes".to_owned());
        };
        let shared = Mutex::new(&mut *log);
        let (acks, err) = std::thread::scope(|scope| {
            let feeder = scope.spawn(|| {
                for _ in 0..batches {
                    let lines = locked(&shared).next_batch(size).concat();
                    // A reader that is dead reads nothing; that is what all this is about.
                    if stdin.write_all(lines.as_bytes()).is_err() {
                        break;
                    }
                }
                drop(stdin);
            });
            let complaints = scope.spawn(move || {
                let mut text = String::new();
                // What cannot be read is missing in the report, no more.
                let _ = stderr.read_to_string(&mut text);
                text
            });
            let acks = read_acknowledgements(stdout, size, |count| acknowledged(count, &mut child));
            if acks.is_err() {
                // It is of no use any more, and the feeder waits for it.
                let _ = child.kill();
            }
            join(feeder);
            (acks, join(complaints))
        });
        let status = child.wait().map_err(|error| format!("cannot wait: {error}"))?;
        let ran = Ran { status, out: String::new(), err };
        log.acknowledge(acks.map_err(|error| format!("{error} ({ran})"))?);
        Ok(ran)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // A directory that stays is untidy and does no harm.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn join<V>(thread: ScopedJoinHandle<'_, V>) -> V {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn locked<V>(mutex: &Mutex<V>) -> std::sync::MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Reads the lines of `load --acknowledge --json` to their end, after a death too; how many batches
/// were acknowledged.
fn read_acknowledgements(
    stdout: impl Read,
    size: usize,
    mut acknowledged: impl FnMut(usize),
) -> Result<usize, String> {
    let mut count = 0;
    acknowledged(count);
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|error| format!("cannot read acknowledgements: {error}"))?;
        if line.starts_with("{\"loaded\"") {
            continue;
        }
        let expected = format!("{{\"durable\":{},\"refused\":0}}", (count + 1) * size);
        if line != expected {
            return Err(format!("expected {expected}, not {line:?}"));
        }
        count += 1;
        acknowledged(count);
    }
    Ok(count)
}
