//! The B+tree against `std`'s `BTreeMap`: exhaustively in small scopes, randomly in larger ones,
//! with the number of nodes read, and under each planted bug.

mod exhaustive;
mod planted;
mod random;
mod reads;
mod support;
