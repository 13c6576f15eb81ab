//! Functions that run wild.
