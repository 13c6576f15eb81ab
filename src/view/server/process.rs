//! A child process with two pipes, of which neither can make us wait for ever.
//!
//! ```text
//!   caller ──line──> writer thread ──> standard input of the child
//!   caller <──line── reader thread <── its standard output
//!     └─ waits at the channel, no longer than the time of the call
//! ```
//!
//! Invariant: a child that was started is reaped when its [`Process`] is dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use super::ServerLimits;
use crate::env::Clock;
use crate::error::{Error, Result};
use crate::mark;

/// CouchDB's name for whatever ends a server.
const PROCESS_ERROR: &str = "os_process_error";

/// Bytes of a strange answer that an error shows.
const SHOWN_BYTES_MAX: usize = 200;

/// Lines of the server that wait for us; a server that prints more waits in turn.
const LINES_WAITING_MAX: usize = 64;

/// A server at work.
pub(super) struct Process {
    child: Child,
    to_server: Sender<String>,
    from_server: Receiver<Line>,
    limits: ServerLimits,
    clock: Arc<dyn Clock>,
    /// When the answer to the last line is due.
    due: Duration,
}

/// What the reader found.
enum Line {
    Text(Vec<u8>),
    TooLong,
}

impl Process {
    pub(super) fn start(
        command: &[String],
        limits: ServerLimits,
        clock: Arc<dyn Clock>,
    ) -> Result<Process> {
        let (program, arguments) =
            command.split_first().ok_or_else(|| process_error("no program is named".to_owned()))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| process_error(format!("cannot start {program}: {error}")))?;
        let (to_server, lines) = channel();
        let (found, from_server) = sync_channel(LINES_WAITING_MAX);
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let due = clock.now();
        // From here on dropping it reaps the child.
        let process = Process { child, to_server, from_server, limits, clock, due };
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else { return Err(died()) };
        let writer = thread::Builder::new().spawn(move || write_lines(stdin, &lines));
        let reader =
            thread::Builder::new().spawn(move || read_lines(stdout, limits.line_bytes_max, &found));
        match (writer, reader) {
            (Ok(_), Ok(_)) => Ok(process),
            _ => Err(process_error("cannot start a thread".to_owned())),
        }
    }

    /// Hands `line` to the server, whose answer is due from now on.
    pub(super) fn send(&mut self, line: String) -> Result<()> {
        self.due = self.clock.now().saturating_add(self.limits.time_max);
        self.to_server.send(line).map_err(|_| died())
    }

    /// The next line of the server.
    // spec: SERVER-3
    pub(super) fn line(&mut self) -> Result<String> {
        let left = if mark::planted("server-log-lines-win-time") {
            self.limits.time_max
        } else {
            // A clock that was set back gives no server more than its time.
            self.due.saturating_sub(self.clock.now()).min(self.limits.time_max)
        };
        match self.from_server.recv_timeout(left) {
            Ok(Line::Text(bytes)) => {
                String::from_utf8(bytes).map_err(|_| garbage("bytes that are not UTF-8"))
            }
            Ok(Line::TooLong) => {
                let limit = self.limits.line_bytes_max;
                Err(process_error(format!("the server answers with more than {limit} bytes")))
            }
            Err(RecvTimeoutError::Disconnected) => Err(died()),
            Err(RecvTimeoutError::Timeout) => {
                mark::hit("server-out-of-time");
                let milliseconds = self.limits.time_max.as_millis();
                Err(process_error(format!("the server is silent for more than {milliseconds} ms")))
            }
        }
    }
}

impl Drop for Process {
    // spec: SERVER-4
    fn drop(&mut self) {
        if mark::planted("server-left-running") {
            return;
        }
        // Both may fail only because the child is gone. The threads end with the pipes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write_lines(mut stdin: ChildStdin, lines: &Receiver<String>) {
    for mut line in lines {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

fn read_lines(stdout: ChildStdout, bytes_max: usize, found: &SyncSender<Line>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        match stdout.by_ref().take(limit).read_until(b'\n', &mut line) {
            // What stands behind the last end of a line is no line.
            Ok(_) if line.last() == Some(&b'\n') => {}
            Ok(_) if line.len() > bytes_max => {
                let _ = found.send(Line::TooLong);
                return;
            }
            _ => return,
        }
        if found.send(Line::Text(line)).is_err() {
            return;
        }
    }
}

/// The error for a server that is gone.
pub(super) fn died() -> Error {
    process_error("the server ended before it answered".to_owned())
}

/// The error for a line that is no answer.
pub(super) fn garbage(line: &str) -> Error {
    let shown: String = line.trim_end().chars().take(SHOWN_BYTES_MAX).collect();
    process_error(format!("the server answers with {shown:?}"))
}

fn process_error(reason: String) -> Error {
    Error::Function { name: PROCESS_ERROR.to_owned(), reason }
}
