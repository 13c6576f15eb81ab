//! The model against engines: the model itself, a stranger's, and some that are wrong on purpose.

mod database;
mod imports;
mod plug_in;
mod revtree;
mod store;
mod toy_db;
mod toy_kv;
mod views;
