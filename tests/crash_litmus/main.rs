//! Fault plans and fault kinds, held against what `spec/assumptions.md` says of them.

#[path = "../crash_program/mod.rs"]
mod crash_program;
mod page;
mod plans;
mod programs;
mod rot;
mod seam;
