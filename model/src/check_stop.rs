//! Why a checked history cannot go on.
//!
//! Invariant: an error of the engine is a difference, unless a fault explains it.

use std::fmt::Display;

use rereduce::{Error, ErrorClass};

use crate::verdict::Mismatch;

/// A difference, or an error that a fault may explain.
pub(crate) enum Stop {
    Differs { expected: String, found: String },
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

impl Stop {
    pub(crate) fn at(self, step: usize) -> Mismatch {
        match self {
            Stop::Differs { expected, found } => Mismatch { step, expected, found },
            Stop::Failed(error) => {
                Mismatch { step, expected: "no error".to_owned(), found: error.to_string() }
            }
        }
    }
}

pub(crate) fn differs(expected: impl Display, found: impl Display) -> Stop {
    Stop::Differs { expected: expected.to_string(), found: found.to_string() }
}

/// After a failed call to the disk an operation may fail, but only in these ways.
pub(crate) fn may_fail(error: &Error) -> bool {
    matches!(error.class(), ErrorClass::Io | ErrorClass::Refused)
}
