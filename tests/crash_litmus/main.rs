//! Fault plans and fault kinds, held against what `spec/assumptions.md` says of them.

mod plans;
