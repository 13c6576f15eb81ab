//! The order of a view's keys: CouchDB's recorded answers, laws, the model, planted bugs.

mod cuts;
mod laws;
mod numbers;
mod planted;
mod recorded;
mod strings;
mod values;

use rereduce::collate::Collation;
use rereduce::vocabulary::Json;

const BOTH: [Collation; 2] = [Collation::Unicode, Collation::Raw];

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

fn key(collation: Collation, value: &Json) -> Vec<u8> {
    let mut key = Vec::new();
    collation.sort_key(value, &mut key);
    key
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
