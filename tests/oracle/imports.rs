//! The model shares words with the engine, and nothing else: the imports of its files are counted.

use std::{fs, path::Path};

/// What each kind of file of the model may name of the engine's crate.
fn allowed(file: &str) -> &'static [&'static str] {
    let checker = ["check_", "play_"].iter().any(|prefix| file.starts_with(prefix));
    match checker {
        true => &["vocabulary", "kv", "reduce", "Error", "ErrorClass", "Result", "{"],
        false => &["vocabulary"],
    }
}

// spec: MODEL-5
#[test]
fn the_models_files_import_only_plain_words_of_the_engine() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("model/src");
    let (mut files, mut folders) = (0, vec![source]);
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            folders.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for (number, line) in code.enumerate() {
            for used in line.split("rereduce::").skip(1) {
                let name = used.split(|byte: char| !byte.is_alphanumeric() && byte != '{').next();
                let name = name.unwrap();
                let name = if name.starts_with('{') { "{" } else { name };
                assert!(allowed(&file).contains(&name), "{file}, code line {number}: {line}");
                if name == "{" {
                    let list = used.trim_start_matches('{').split('}').next().unwrap();
                    for name in list.split(',').filter_map(|item| item.split_whitespace().next()) {
                        assert!(allowed(&file).contains(&name), "{file}, {number}: {line}");
                    }
                }
            }
        }
        files += 1;
    }
    assert!(files >= 5, "the model's files were not found");
}

/// The files that hold the model's state: no operations, parsers, generators or checkers.
const STATE_FILES: [&str; 7] =
    ["collate.rs", "kv.rs", "db.rs", "revtree.rs", "resolve.rs", "views.rs", "views_reduce.rs"];

// spec: MODEL-12
#[test]
fn the_model_is_at_most_eight_percent_as_long_as_the_engine() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lines = |path: &Path| fs::read_to_string(path).unwrap().lines().count();
    let state: usize =
        STATE_FILES.iter().map(|file| lines(&root.join("model/src").join(file))).sum();
    let (mut engine, mut folders) = (0, vec![root.join("src")]);
    while let Some(path) = folders.pop() {
        if path.is_dir() && !path.ends_with("bin") {
            folders.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            engine += lines(&path);
        }
    }
    println!("{state} lines of model, {engine} of engine");
    assert!(engine > 0 && state * 100 <= engine * 8, "{state} of {engine} lines");
}
