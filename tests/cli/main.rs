//! The command line, run as its users run it: the built program in a directory of its own.

mod commands;
mod crashes;
mod endings;
mod planted;
mod readme;
mod support;
mod tour;
#[cfg(feature = "javascript")]
mod view;
