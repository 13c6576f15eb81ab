//! What functions see and what becomes of what they give.
