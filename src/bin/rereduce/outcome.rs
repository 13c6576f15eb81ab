//! How a command ends.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | done |
//! | 1 | the answer is no: missing, conflict, damage found by `check` |
//! | 2 | wrong usage, or input that cannot be used |
//! | 3 | the system refused: IO, disk full, locked by another writer |
//! | 4 | not a sound database: damaged, foreign, or of a newer format |
//! | 130 | interrupted by Ctrl-C |
//!
//! Invariant: the code depends on the class of an error, never on its message.

use rereduce::{Error, ErrorClass};

/// What every command returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a command did not do what it was asked.
pub(crate) enum Failure {
    /// To be told, and the exit code.
    Said { code: u8, message: String },
    /// Whoever read standard output went away: nobody is left to be told.
    PipeClosed,
}

impl Failure {
    /// The answer is no.
    pub(crate) fn no(message: impl Into<String>) -> Failure {
        Failure::Said { code: 1, message: message.into() }
    }

    /// The command line, or what it names as input, cannot be used.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::Said { code: 2, message: message.into() }
    }

    /// Ctrl-C.
    pub(crate) fn interrupted(message: impl Into<String>) -> Failure {
        Failure::Said { code: 130, message: message.into() }
    }

    /// The system refused `operation` on `what`.
    pub(crate) fn io(operation: &'static str, what: &str, error: std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::PipeClosed,
            _ => Error::io(operation, what, error).into(),
        }
    }

    /// The same failure, with `note` behind its message.
    pub(crate) fn with(self, note: &str) -> Failure {
        match self {
            Failure::Said { code, message } => {
                Failure::Said { code, message: format!("{message}; {note}") }
            }
            Failure::PipeClosed => Failure::PipeClosed,
        }
    }
}

impl From<Error> for Failure {
    // spec: CLI-1
    fn from(error: Error) -> Failure {
        let code = match error.class() {
            ErrorClass::Conflict => 1,
            // A database that is not there is for the system to say, a document for the database.
            ErrorClass::Missing if matches!(error, Error::NoSuchFile { .. }) => 3,
            ErrorClass::Missing => 1,
            ErrorClass::Function => 1,
            ErrorClass::BadInput | ErrorClass::Limit => 2,
            ErrorClass::Io | ErrorClass::Busy | ErrorClass::Refused => 3,
            ErrorClass::Corrupt | ErrorClass::NotADatabase | ErrorClass::NewerFormat => 4,
            ErrorClass::Cancelled => 130,
        };
        let code = if rereduce::mark::planted("cli-all-errors-are-one") { 1 } else { code };
        let hint = hint(&error).map(|hint| format!("; {hint}")).unwrap_or_default();
        Failure::Said { code, message: format!("{error}{hint}") }
    }
}

/// What to do about errors whose own message does not say it.
fn hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::Io { source, .. } => Some(match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                "make room and try again"
            }
            std::io::ErrorKind::ReadOnlyFilesystem => "commands that only read still work",
            std::io::ErrorKind::PermissionDenied => "check the permissions",
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => "check the path",
            _ => "what was acknowledged before is safe",
        }),
        Error::Missing { .. } => Some("`changes` and `dump` list what is there"),
        Error::Deleted { .. } => Some("name a revision with --rev to read it still"),
        Error::Compacted { .. } | Error::NoSuchCommit { .. } => Some("`history` lists the commits"),
        Error::InvalidQuery { .. } => Some("`rereduce help view` says what parameters take"),
        Error::InvalidDesignDoc { .. } => Some("mend the design document"),
        Error::Function { .. } => Some("mend the function, or the document that it met"),
        Error::InvalidValue { .. } => Some("mend the document, or the view"),
        _ => None,
    }
}

/// Standard error gets one line, whatever is in a message.
// spec: CLI-2
pub(crate) fn one_line(message: &str) -> String {
    if rereduce::mark::planted("cli-errors-of-many-lines") {
        return format!("{message}\n");
    }
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
