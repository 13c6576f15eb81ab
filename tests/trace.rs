//! Every requirement in `spec/` is kept by code, shown by a test, and missed when a planted bug
//! breaks it; and every reported case is pinned by a test.
//!
//! ```text
//! spec/*.md                 - **COMMIT-2** ...      defines
//! src, model, crash-sim,
//! spec                      // spec: COMMIT-2       kept here
//! tests, unit tests         // spec: COMMIT-2       shown here
//! crash-sim/src/planted.rs  violates COMMIT-2       shown to be able to fail
//! spec/untested.md          - COMMIT-2: reason      not shown to be able to fail
//! ```

mod source;

use std::collections::{BTreeMap, BTreeSet};

use source::{Source, assert_none, files, rust_files};

/// The cases of bug reports that this engine pins, each by a test that names it.
const CASES: [&str; 39] = [
    "B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B09", "B10", "B11", "B12", "B13",
    "B14", "B15", "B16", "B17", "B18", "B19", "B20", "B21", "B22", "B23", "B24", "B25", "B27",
    "B28", "B29", "B30", "B31", "B34", "B35", "B36", "B37", "B38", "B39", "B40", "B43", "B44",
];

/// An id and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mention {
    id: String,
    place: String,
    in_test: bool,
}

/// A planted bug of the table.
#[derive(Debug, PartialEq, Eq)]
struct Planted {
    name: String,
    violates: BTreeSet<String>,
    /// The test files or folders that plant it; empty if only the campaign does.
    shown_by: String,
}

/// All that the rules below are about.
#[derive(Default)]
struct Project {
    definitions: Vec<Mention>,
    citations: Vec<Mention>,
    cases: Vec<Mention>,
    planted_in_code: BTreeSet<String>,
    /// The strings of each test file, by its path.
    strings_in_tests: BTreeMap<String, BTreeSet<String>>,
    /// `None` while there is no table.
    planted: Option<Vec<Planted>>,
    untested: String,
}

#[test]
fn every_requirement_is_kept_shown_and_able_to_fail() {
    let project = read_project();
    let mut complaints = unreadable(&project);
    complaints.extend(definitions_and_citations(&project));
    complaints.extend(planted_and_untested(&project));
    // The cases are about documents; a tree on its own cannot have them.
    if source::root().join("src/db").exists() {
        complaints.extend(unpinned_cases(&project));
    }
    let ids: BTreeSet<&str> = project.definitions.iter().map(|mention| &*mention.id).collect();
    let (open, _) = untested(&project.untested);
    println!(
        "trace: {} requirements, {} of them not shown to be able to fail, {} planted bugs; {} failed",
        ids.len(),
        open.len(),
        project.planted_in_code.len(),
        complaints.len()
    );
    assert_none(complaints);
}

#[test]
fn the_index_of_the_specification_names_every_page() {
    let pages = files("spec", ".md");
    let index = pages.iter().find(|(path, _)| path == "spec/README.md");
    let (_, index) = index.expect("the specification has an index");
    for (path, _) in pages.iter().filter(|(path, _)| path != "spec/README.md") {
        let link = format!("]({})", path.trim_start_matches("spec/"));
        assert!(index.contains(&link), "spec/README.md does not link to {path}");
    }
}

fn read_project() -> Project {
    let mut project = Project::default();
    for (path, text) in files("spec", ".md") {
        if path == "spec/untested.md" {
            project.untested = text;
        } else {
            project.definitions.extend(definitions(&path, &text));
        }
    }
    for directory in ["src", "model", "crash-sim", "spec", "fuzz", "benches", "tests"] {
        for file in rust_files(directory) {
            project.citations.extend(mentions(&file, "spec:"));
            project.cases.extend(mentions(&file, "case:"));
            if directory == "src" {
                project.planted_in_code.extend(planted_in_code(&file));
            }
            if file.is_test(0) && file.path != "tests/trace.rs" {
                let strings = file.text.split('"').map(String::from).collect();
                project.strings_in_tests.insert(file.path.clone(), strings);
            }
            if file.path == "crash-sim/src/planted.rs" {
                project.planted = Some(planted_table(&file));
            }
        }
    }
    for (path, text) in files("tests/golden", "") {
        if !path.ends_with(".rs") {
            let script = script(&path, &text);
            project.citations.extend(mentions(&script, "spec:"));
            project.cases.extend(mentions(&script, "case:"));
        }
    }
    project
}

/// The definitions in one page: list lines that begin with a bold id.
fn definitions(path: &str, text: &str) -> Vec<Mention> {
    let lines = text.lines().enumerate();
    let found = lines.filter_map(|(index, line)| {
        let (id, _) = line.strip_prefix("- **")?.split_once("**")?;
        is_id(id).then(|| mention(path, index, id, false))
    });
    found.collect()
}

fn mention(path: &str, index: usize, id: &str, in_test: bool) -> Mention {
    Mention { id: id.into(), place: format!("{path}:{}", index + 1), in_test }
}

/// Whether `text` is the id of a requirement (`COMMIT-2`) or of a case (`B08`).
fn is_id(text: &str) -> bool {
    let letters = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let area = letters.strip_suffix('-').unwrap_or(letters);
    let is_area = |c: char| c.is_ascii_uppercase() || c == '-';
    letters.len() < text.len()
        && (area.len() < letters.len() || area.len() == 1)
        && area.starts_with(|c: char| c.is_ascii_uppercase())
        && area.chars().all(is_area)
}

/// The ids that comments list behind `keyword`, as in `// spec: COMMIT-2, COMMIT-3`. A list that
/// stands on a line of its own must consist of ids; anything else there is returned as it is, and
/// [`unreadable`] complains.
fn mentions(file: &Source, keyword: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    for (index, line) in file.comments.lines().enumerate() {
        let Some((before, list)) = line.split_once(keyword) else { continue };
        let alone = before.trim().chars().all(|c| c == '/' || c == '!');
        let is_quoted = before.matches('`').count() % 2 == 1;
        if is_quoted {
            continue;
        }
        for word in list.split(',') {
            let end = word.find([')', ';', '.']);
            let word = word[..end.unwrap_or(word.len())].trim();
            if is_id(word) || alone {
                found.push(mention(&file.path, index, word, file.is_test(index)));
            }
        }
    }
    found
}

/// A golden script: what stands behind `#` is its comment, and all of it is a test.
fn script(path: &str, text: &str) -> Source {
    let comment = |line: &str| line.strip_prefix('#').unwrap_or_default().to_string();
    let comments = text.lines().map(|line| comment(line) + "\n").collect();
    let (path, text, code) = (path.into(), text.into(), String::new());
    Source { path, text, code, comments, tests_begin: 0 }
}

/// The names of the planted bugs that the code of `file` asks for.
fn planted_in_code(file: &Source) -> Vec<String> {
    let call = "planted(\"";
    let calls = file.code.match_indices(call).map(|(at, _)| &file.text[at + call.len()..]);
    calls.filter_map(|rest| Some(rest.split_once('"')?.0.to_string())).collect()
}

/// The table of planted bugs, a row each: `bug("NAME", "VIOLATED IDS", "CHECKS", "SHOWN BY")`.
fn planted_table(file: &Source) -> Vec<Planted> {
    let call = "bug(";
    let calls = file.code.match_indices(call).map(|(at, _)| &file.text[at + call.len()..]);
    let rows = calls.filter(|rest| rest.trim_start().starts_with('"')).map(|rest| {
        let mut strings = rest.split('"').skip(1).step_by(2).map(String::from);
        let mut next = || strings.next().unwrap_or_default();
        let (name, ids, _checks, shown_by) = (next(), next(), next(), next());
        Planted { name, violates: ids.split(' ').map(String::from).collect(), shown_by }
    });
    rows.collect()
}

/// The ids in `spec/untested.md` (`- COMMIT-2: reason`), and how many it allows (`At most 3`).
fn untested(text: &str) -> (BTreeSet<String>, usize) {
    let ids = text.lines().filter_map(|line| {
        let (id, reason) = line.strip_prefix("- ")?.split_once(": ")?;
        (is_id(id) && !reason.trim().is_empty()).then(|| id.to_string())
    });
    let limit = text.lines().find_map(|line| {
        let rest = line.strip_prefix("At most ")?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    });
    (ids.collect(), limit.unwrap_or(0))
}

fn unreadable(project: &Project) -> Vec<String> {
    let all = project.citations.iter().chain(&project.cases);
    let bad = all.filter(|mention| !is_id(&mention.id));
    bad.map(|mention| format!("{}: {:?} is no id", mention.place, mention.id)).collect()
}

fn definitions_and_citations(project: &Project) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut defined = BTreeMap::new();
    for definition in &project.definitions {
        let Mention { id, place, .. } = definition;
        if let Some(first) = defined.insert(id, place) {
            complaints.push(format!("{place}: {id} is defined at {first} already"));
        }
    }
    for Mention { id, place, .. } in &project.citations {
        if is_id(id) && !defined.contains_key(id) {
            complaints.push(format!("{place}: {id} is not defined in spec/"));
        }
    }
    for (id, place) in defined {
        for (in_test, by) in [(false, "code"), (true, "test")] {
            let cites = |mention: &Mention| &mention.id == id && mention.in_test == in_test;
            if !project.citations.iter().any(cites) {
                complaints.push(format!("{place}: no {by} cites {id}"));
            }
        }
    }
    complaints
}

/// Table and code name the same bugs, and what no bug violates is listed as such.
fn planted_and_untested(project: &Project) -> Vec<String> {
    let Some(table) = &project.planted else { return Vec::new() };
    let mut complaints = Vec::new();
    let names: BTreeSet<String> = table.iter().map(|planted| planted.name.clone()).collect();
    for name in project.planted_in_code.difference(&names) {
        complaints.push(format!("planted bug {name} is in src/, but not in the table"));
    }
    for name in names.difference(&project.planted_in_code) {
        complaints.push(format!("planted bug {name} is in the table, but not in src/"));
    }
    if names.len() != table.len() {
        complaints.push("the table names a planted bug twice".into());
    }
    let shown = |bug: &Planted| Vec::from_iter(bug.shown_by.split_whitespace().map(String::from));
    for (name, place) in
        table.iter().flat_map(|bug| shown(bug).into_iter().map(|at| (&bug.name, at)))
    {
        let files = project.strings_in_tests.iter().filter(|(path, _)| path.starts_with(&place));
        if !files.into_iter().any(|(_, strings)| strings.contains(name)) {
            complaints.push(format!("planted bug {name}: no test in {place} names it"));
        }
    }
    for id in table.iter().flat_map(|bug| &bug.violates).filter(|id| !is_id(id)) {
        complaints.push(format!("the table of planted bugs: {id:?} is no id"));
    }
    let violated: BTreeSet<&String> = table.iter().flat_map(|entry| &entry.violates).collect();
    let defined: BTreeSet<&String> = project.definitions.iter().map(|at| &at.id).collect();
    let (listed, limit) = untested(&project.untested);
    for &id in defined.difference(&violated).filter(|id| !listed.contains(**id)) {
        complaints.push(format!("no planted bug violates {id}: plant one, or say why not"));
    }
    for id in &listed {
        if violated.contains(id) {
            complaints.push(format!("spec/untested.md: a planted bug violates {id}: strike it"));
        }
        if !defined.contains(id) {
            complaints.push(format!("spec/untested.md: {id} is not defined in spec/"));
        }
    }
    // Kinds of fault are no requirements; `tests/crash_campaigns.rs` looks after those.
    let is_unknown =
        |id: &&String| id.contains('-') && !id.starts_with("KIND-") && !defined.contains(*id);
    for id in violated.into_iter().filter(is_unknown) {
        complaints.push(format!("the table violates {id}, which is not defined in spec/"));
    }
    if listed.len() > limit {
        let count = listed.len();
        complaints.push(format!("spec/untested.md lists {count} and allows at most {limit}"));
    }
    complaints
}

fn unpinned_cases(project: &Project) -> Vec<String> {
    let pinned = |case: &&str| project.cases.iter().any(|at| at.id == **case && at.in_test);
    let open = CASES.into_iter().filter(|case| !pinned(case));
    open.map(|case| format!("no test cites case {case}")).collect()
}

fn ids(mentions: &[Mention]) -> Vec<&str> {
    mentions.iter().map(|mention| &*mention.id).collect()
}

#[test]
fn ids_are_told_from_other_words() {
    for id in ["COMMIT-2", "FILE-12", "B08", "A-1", "DOC-REV-3"] {
        assert!(is_id(id), "{id}");
    }
    for word in ["", "COMMIT", "COMMIT-", "-2", "Commit-2", "2", "AB12", "COMMIT-2a", "b08"] {
        assert!(!is_id(word), "{word}");
    }
}

#[test]
fn definitions_are_list_lines_with_a_bold_id() {
    let page =
        "# A\n- **COMMIT-1** One.\n- **bold** word\nsee **COMMIT-2**\n- **COMMIT-3** Three.\n";
    assert_eq!(ids(&definitions("spec/a.md", page)), ["COMMIT-1", "COMMIT-3"]);
    assert_eq!(definitions("spec/a.md", page)[1].place, "spec/a.md:5");
}

#[test]
fn citations_are_read_from_comments_in_code_and_in_tests() {
    let text =
        "// spec: A-1, A-2\nfn a() { \"// spec: A-9\" }\n//! Kept (spec: A-3), and `// spec: A-8`.
#[cfg(test)]\nmod tests {\n    // spec: A-1\n    // case: B05\n}\n";
    let file = Source::rust("src/a.rs", text);
    let found = mentions(&file, "spec:");
    assert_eq!(ids(&found), ["A-1", "A-2", "A-3", "A-1"]);
    let in_test: Vec<bool> = found.iter().map(|mention| mention.in_test).collect();
    assert_eq!(in_test, [false, false, false, true]);
    assert_eq!(ids(&mentions(&file, "case:")), ["B05"]);
    let script = script("tests/golden/scripts/a", "# Stands (spec: A-1).\nget spec: A-7\n");
    assert_eq!(ids(&mentions(&script, "spec:")), ["A-1"]);
    assert!(mentions(&script, "spec:")[0].in_test);
}

#[test]
fn an_id_with_a_slip_of_the_pen_is_found() {
    let citations = mentions(&Source::rust("src/a.rs", "// spec: A-1 A-2\n"), "spec:");
    assert_eq!(unreadable(&Project { citations, ..Project::default() }).len(), 1);
}

#[test]
fn planted_bugs_are_read_from_code_and_table() {
    let text = "if mark::planted(\"a-b\") { 1 }\nif planted(\"c\") {}\n// planted(\"d\")\n";
    assert_eq!(planted_in_code(&Source::rust("src/a.rs", text)), ["a-b", "c"]);
    let table = "const fn bug(name: &str) {}\nconst T: &[Bug] = &[
    // bug(\"d\", \"A-9\", \"\", \"\"),
    bug(\"a-b\", \"A-1 B08\", \"crash\", \"\"),
    bug(\"c\", \"A-2\", \"\", \"tests/c\"),\n];";
    let planted = planted_table(&Source::rust("crash-sim/src/planted.rs", table));
    let row = |name: &str, ids: &[&str], shown_by: &str| Planted {
        name: name.into(),
        violates: ids.iter().map(|id| id.to_string()).collect(),
        shown_by: shown_by.into(),
    };
    assert_eq!(planted, [row("a-b", &["A-1", "B08"], ""), row("c", &["A-2"], "tests/c")]);
}

/// A project that keeps the rules: `A-1` is kept, shown and violated, `A-2` is listed.
fn sound() -> Project {
    let cited = |id: &str| [mention("src/a.rs", 0, id, false), mention("tests/a.rs", 0, id, true)];
    Project {
        definitions: definitions("spec/a.md", "- **A-1** One.\n- **A-2** Two.\n"),
        citations: [cited("A-1"), cited("A-2")].concat(),
        cases: Vec::new(),
        planted_in_code: BTreeSet::from(["bug".to_string()]),
        planted: Some(vec![Planted {
            name: "bug".into(),
            violates: BTreeSet::from(["A-1".to_string()]),
            shown_by: "tests/a".into(),
        }]),
        strings_in_tests: BTreeMap::from([("tests/a.rs".into(), BTreeSet::from(["bug".into()]))]),
        untested: "At most 1 of them.\n- A-2: cannot be broken in one place.\n".into(),
    }
}

#[test]
fn each_rule_can_fail() {
    let complaints = |change: fn(&mut Project)| {
        let mut project = sound();
        change(&mut project);
        [definitions_and_citations(&project), planted_and_untested(&project)].concat().len()
    };
    assert_eq!(complaints(|_| ()), 0);
    assert_eq!(complaints(|project| drop(project.definitions.remove(0))), 3);
    assert_eq!(complaints(|project| project.definitions.push(project.definitions[0].clone())), 1);
    assert_eq!(complaints(|project| project.citations.retain(|at| at.in_test)), 2);
    assert_eq!(complaints(|project| project.citations.retain(|at| !at.in_test)), 2);
    assert_eq!(complaints(|project| project.planted_in_code.clear()), 1);
    assert_eq!(complaints(|project| project.strings_in_tests.clear()), 1);
    assert_eq!(complaints(|project| project.planted = Some(Vec::new())), 2);
    assert_eq!(complaints(|project| project.untested.clear()), 1);
    assert_eq!(complaints(|project| project.untested = project.untested.replace('1', "0")), 1);
    assert_eq!(complaints(|project| project.untested.push_str("- A-1: no.\n")), 2);
    assert_eq!(unpinned_cases(&sound()).len(), CASES.len());
}
