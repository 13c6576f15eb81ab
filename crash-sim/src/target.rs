//! What an engine must offer to be crashed: operations in text, its state, and what it should be.
//!
//! Invariant: the harness knows an engine by this trait alone, and judges it by the target's model
//! ([`Target::empty`], [`Target::expect`]), which must share no code with the engine.

use std::fmt::{Debug, Display};
use std::path::Path;
use std::str::FromStr;

use rereduce::Result;
use rereduce::env::Env;

/// An engine under test, with its options set.
///
/// After a crash the engine must open, and its state must be what the model holds after some number
/// of operations: at least those acknowledged, at most those begun.
///
/// See `tests/crash_toy/mod.rs` for a whole example, a log of numbers with its mistakes.
pub trait Target: Clone + Send + Sync {
    /// One step of a workload; prints to one line without `;` and parses back.
    type Op: Clone + Display + FromStr<Err: Display> + Send + Sync;
    /// What readers can see, complete enough to tell any two commits apart.
    type State: Clone + Eq + Debug + Send + Sync;
    /// An open database.
    type Handle;

    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// Sets an option; a workload's `with KEY=VALUE` and `--set KEY=VALUE` arrive here.
    ///
    /// # Errors
    ///
    /// A message for the user if there is no such option or value.
    fn set(&mut self, key: &str, value: &str) -> std::result::Result<(), String> {
        Err(format!("{} has no option {key}={value}", self.name()))
    }

    /// The options that differ from the default, as `KEY=VALUE` that [`Target::set`] takes.
    fn settings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Opens the database at `path`, creating it if it is missing.
    fn open(&self, env: &Env, path: &Path) -> Result<Self::Handle>;

    /// Carries `op` out; returning `Ok` acknowledges it.
    fn apply(&self, handle: &mut Self::Handle, op: &Self::Op) -> Result<()>;

    /// Reads everything.
    fn state(&self, handle: &Self::Handle) -> Result<Self::State>;

    /// Checks every invariant of the open database that its state does not show.
    ///
    /// # Errors
    ///
    /// What is wrong, for people.
    fn check(&self, handle: &Self::Handle) -> std::result::Result<(), String>;

    /// The state of a database that never saw an operation.
    fn empty(&self) -> Self::State;

    /// The state after `op`.
    fn expect(&self, state: &Self::State, op: &Self::Op) -> Self::State;

    /// A workload of `count` operations, made from `seed`; the same for the same arguments.
    fn generate(&self, count: usize, seed: u64) -> Vec<Self::Op>;

    /// Operations to try in place of `op` when a workload is shrunk, each strictly smaller.
    fn simpler(&self, op: &Self::Op) -> Vec<Self::Op> {
        let _ = op;
        Vec::new()
    }
}

/// A named sequence of operations with the options it wants.
///
/// ```text
/// # One key, twice, and the tail is torn.
/// with cache=0
/// commit a=1
/// commit a=2
/// ```
///
/// ```
/// use rereduce_crash_sim::Workload;
/// let text = "# Why.\nwith cache=0\ncommit a=1\ncommit a=2\n";
/// let workload = Workload::parse("twice", text).unwrap();
/// assert_eq!(workload.title, "Why.");
/// assert_eq!(workload.lines, ["commit a=1", "commit a=2"]);
/// assert_eq!(workload.settings, [("cache".to_owned(), "0".to_owned())]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The file's name without its ending.
    pub name: String,
    /// The first comment.
    pub title: String,
    /// Options of the target, from `with` lines.
    pub settings: Vec<(String, String)>,
    /// Operations, one a line.
    pub lines: Vec<String>,
}

impl Workload {
    /// Reads a script: comments begin with `#`, options with `with`, each other line is an
    /// operation; `;` ends a line too, so that a script fits on a command line.
    ///
    /// # Errors
    ///
    /// A message naming a line that makes no sense.
    pub fn parse(name: &str, text: &str) -> std::result::Result<Workload, String> {
        let mut workload = Workload {
            name: name.to_owned(),
            title: String::new(),
            settings: Vec::new(),
            lines: Vec::new(),
        };
        for line in text.lines().map(str::trim) {
            if let Some(comment) = line.strip_prefix('#') {
                if workload.title.is_empty() {
                    workload.title = comment.trim().to_owned();
                }
                continue;
            }
            for part in line.split(';').map(str::trim).filter(|part| !part.is_empty()) {
                match part.strip_prefix("with ") {
                    Some(settings) => {
                        for setting in settings.split_whitespace() {
                            let Some((key, value)) = setting.split_once('=') else {
                                return Err(format!("{name}: {setting:?} is not KEY=VALUE"));
                            };
                            workload.settings.push((key.to_owned(), value.to_owned()));
                        }
                    }
                    None => workload.lines.push(part.to_owned()),
                }
            }
        }
        Ok(workload)
    }

    /// The target with this workload's options, and its operations.
    ///
    /// # Errors
    ///
    /// A message naming an option or an operation that the target does not know.
    pub fn prepare<T: Target>(&self, target: &T) -> std::result::Result<(T, Vec<T::Op>), String> {
        let mut target = target.clone();
        for (key, value) in &self.settings {
            target.set(key, value).map_err(|error| format!("{}: {error}", self.name))?;
        }
        let ops = self
            .lines
            .iter()
            .map(|line| line.parse().map_err(|error| format!("{}: {line:?}: {error}", self.name)));
        Ok((target, ops.collect::<std::result::Result<_, String>>()?))
    }
}
