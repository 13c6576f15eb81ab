//! The report of crash-sim, made small and read again: every figure of the page stands in its CSV
//! file, the page needs nothing but itself, and the checks that say so can fail.
//!
//! The page is read as XML by the few lines below, which refuse whatever they do not understand.

// Not every mistake of the toy is made here.
#[allow(dead_code)]
mod crash_toy;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crash_toy::{Mistake, Toy};
use rereduce::mark;
use rereduce_crash_sim::{
    CAMPAIGNS, Context, Counts, FaultModel, Figures, Measure, Measures, Workload,
};

/// The page and the tables, as they lie in a directory.
struct Report {
    page: String,
    tables: BTreeMap<String, Vec<Vec<String>>>,
}

/// Makes a report of a few scripts of each engine.
fn report(directory: &Path) -> (Figures, Report) {
    let workloads = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crash-sim/workloads");
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let out = directory.to_str().unwrap();
    let arguments = [("out", out), ("scripts", "2"), ("sets", "20")].map(own).to_vec();
    let context = Context { quick: true, loud: false, arguments, ..Context::new(workloads) };
    let campaign = CAMPAIGNS.iter().find(|campaign| campaign.name == "report").unwrap();
    let figures = (campaign.run)(&context).unwrap();
    let mut tables = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.ends_with(".csv") {
            tables.insert(name, csv(&fs::read_to_string(&path).unwrap()));
        }
    }
    let page = fs::read_to_string(directory.join("index.html")).unwrap();
    (figures, Report { page, tables })
}

/// The fields of a CSV file, by row.
fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut letters, mut quoted) = (text.chars().peekable(), false);
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => field.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            _ => field.push(letter),
        }
    }
    rows
}

/// An element, and what is in it.
#[derive(Default)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    children: Vec<Node>,
}

enum Node {
    Element(Element),
    Text(String),
}

impl Element {
    fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str())
    }

    /// All text inside.
    fn text(&self) -> String {
        let texts = self.children.iter().map(|child| match child {
            Node::Element(element) => element.text(),
            Node::Text(text) => text.clone(),
        });
        texts.collect()
    }

    /// Visits this element and all inside, with the elements around each.
    fn walk<'a>(&'a self, around: &mut Vec<&'a Element>, visit: &mut impl FnMut(&[&Element])) {
        around.push(self);
        visit(around);
        for child in &self.children {
            if let Node::Element(element) = child {
                element.walk(around, visit);
            }
        }
        around.pop();
    }
}

/// Reads a page as XML, entities and all.
fn parse(page: &str) -> Result<Element, String> {
    let text = page.strip_prefix("<!DOCTYPE html>").ok_or("a page begins with its type")?;
    let mut open = vec![Element::default()];
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        add_text(&mut open, before)?;
        let end = tag.find('>').ok_or("a tag without an end")?;
        let inside = &tag[1..end];
        rest = &tag[end + 1..];
        if let Some(name) = inside.strip_prefix('/') {
            let element = open.pop().filter(|element| element.name == name);
            let element = element.ok_or(format!("</{name}> closes something else"))?;
            let around = open.last_mut().ok_or(format!("</{name}> closes nothing"))?;
            around.children.push(Node::Element(element));
            continue;
        }
        let (inside, alone) =
            inside.strip_suffix('/').map_or((inside, false), |inside| (inside, true));
        let element = start(inside)?;
        match alone {
            true => open.last_mut().ok_or("outside")?.children.push(Node::Element(element)),
            false => open.push(element),
        }
    }
    add_text(&mut open, rest)?;
    match open.len() {
        1 => Ok(open.remove(0)),
        _ => Err(format!("<{}> is not closed", open[open.len() - 1].name)),
    }
}

fn add_text(open: &mut [Element], text: &str) -> Result<(), String> {
    let text = unescaped(text)?;
    if let (Some(element), false) = (open.last_mut(), text.is_empty()) {
        element.children.push(Node::Text(text));
    }
    Ok(())
}

fn start(inside: &str) -> Result<Element, String> {
    let (name, mut rest) = inside.split_once(' ').unwrap_or((inside, ""));
    let mut element = Element { name: name.to_owned(), ..Element::default() };
    let is_name = |text: &str| {
        let good = |c: char| c.is_ascii_alphanumeric() || "-:".contains(c);
        !text.is_empty() && text.chars().all(good)
    };
    if !is_name(name) {
        return Err(format!("<{inside}> has no name"));
    }
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(element);
        }
        let (key, after) = rest.split_once("=\"").ok_or(format!("<{inside}>: {rest}"))?;
        let (value, after) = after.split_once('"').ok_or(format!("<{inside}>: {rest}"))?;
        if !is_name(key) || element.attribute(key).is_some() {
            return Err(format!("<{inside}>: attribute {key}"));
        }
        element.attributes.push((key.to_owned(), unescaped(value)?));
        rest = after;
    }
}

fn unescaped(text: &str) -> Result<String, String> {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, entity)) = rest.split_once('&') {
        let (name, after) = entity.split_once(';').ok_or("a bare &")?;
        let letter = match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            _ => return Err(format!("unknown &{name};")),
        };
        plain.push_str(before);
        plain.push(letter);
        rest = after;
    }
    Ok(plain + rest)
}

/// What is wrong with the figures of the page.
fn wrong_figures(report: &Report) -> Vec<String> {
    let page = match parse(&report.page) {
        Ok(page) => page,
        Err(error) => return vec![error],
    };
    let mut wrong = Vec::new();
    page.walk(&mut Vec::new(), &mut |around| {
        let element = around[around.len() - 1];
        if let Some(origin) = element.attribute("data-csv") {
            let shown = element.text();
            match field(report, origin) {
                None => wrong.push(format!("{origin}: there is no such field")),
                Some(field) if *field == shown || *field == shown.replace(',', "") => {}
                Some(field) => wrong.push(format!("{origin}: {field:?} is shown as {shown:?}")),
            }
            return;
        }
        // What names no field holds no digit, but for commands, axes and what draws.
        let free = ["style", "code"];
        let is_free = |element: &&Element| {
            free.contains(&&*element.name)
                || element.attribute("data-csv").is_some()
                || element.attribute("class") == Some("axis")
        };
        for child in &element.children {
            if let Node::Text(text) = child
                && text.contains(|c: char| c.is_ascii_digit())
                && !around.iter().any(is_free)
            {
                wrong.push(format!("a figure without an origin: {text:?}"));
            }
        }
    });
    wrong
}

fn field<'a>(report: &'a Report, origin: &str) -> Option<&'a String> {
    let mut parts = origin.split(':');
    let table = report.tables.get(parts.next()?)?;
    let row: usize = parts.next()?.parse().ok()?;
    let column = parts.next()?;
    let index = table.first()?.iter().position(|name| name == column)?;
    table.get(row)?.get(index)
}

/// What the page would load, run or call by another name.
fn foreign(page: &str) -> Vec<String> {
    let parsed = match parse(page) {
        Ok(parsed) => parsed,
        Err(error) => return vec![error],
    };
    let mut found = Vec::new();
    parsed.walk(&mut Vec::new(), &mut |around| {
        let element = around[around.len() - 1];
        if ["script", "link", "img", "iframe", "object", "embed", "use"].contains(&&*element.name) {
            found.push(format!("<{}>", element.name));
        }
        for (name, value) in &element.attributes {
            let local = value.starts_with('#') || value.ends_with(".csv");
            if (name == "src" || name.ends_with("href")) && !local || name.starts_with("on") {
                found.push(format!("{name}={value}"));
            }
        }
    });
    for word in ["://", "url(", "@import", "javascript:"] {
        if page.contains(word) {
            found.push(word.to_owned());
        }
    }
    found
}

// spec: REPORT-1, REPORT-2, REPORT-3, REPORT-5
#[test]
fn every_figure_of_the_page_stands_in_its_table() {
    let directory = tempfile::tempdir().unwrap();
    let (figures, report) = report(directory.path());
    assert!(figures.succeeded(), "{figures}");
    assert_eq!(figures.passed, 15, "{figures}");
    assert_eq!(wrong_figures(&report), [""; 0]);
    assert_eq!(foreign(&report.page), [""; 0]);

    let parsed = parse(&report.page).unwrap();
    let (mut heads, mut shown, mut pictures) = (Vec::new(), BTreeMap::new(), 0);
    parsed.walk(&mut Vec::new(), &mut |around| {
        let element = around[around.len() - 1];
        match &*element.name {
            "h1" | "h2" => heads.push(element.text()),
            "svg" => pictures += 1,
            _ => {}
        }
        if let Some(origin) = element.attribute("data-csv") {
            *shown.entry(origin.split(':').next().unwrap().to_owned()).or_insert(0) += 1;
        }
    });
    assert_eq!(
        heads,
        [
            "The database said “committed”. Then the power failed. Is the commit still there?",
            "Why Guide loses data on a disk that reorders writes",
            "The same crash under each protocol",
            "What it costs",
            "Recovery does not grow with the file",
            "Every cell",
            "How it was measured",
        ]
    );
    assert!(pictures >= 8, "{pictures} pictures");
    let tables: Vec<&String> = report.tables.keys().collect();
    assert_eq!(shown.keys().collect::<Vec<_>>(), tables, "every table is shown");

    // Images are sorted without remainder, and workloads add up to the matrix.
    let number = |origin: String| field(&report, &origin).unwrap().parse::<u64>().unwrap();
    for row in 1..report.tables["matrix.csv"].len() {
        let count = |column: &str| number(format!("matrix.csv:{row}:{column}"));
        let sorted = ["survivors", "older", "detected", "undetected"].map(count);
        assert_eq!(sorted.iter().sum::<u64>(), count("images"), "row {row}");
        assert_eq!(count("lost"), count("images") - count("survivors"));
        assert!(
            count("lost_acknowledged") <= count("lost") && count("distinct") <= count("images")
        );
        let same = |cell: &usize| {
            ["protocol", "model"].iter().all(|column| {
                field(&report, &format!("cells.csv:{cell}:{column}"))
                    == field(&report, &format!("matrix.csv:{row}:{column}"))
            })
        };
        let cells = (1..report.tables["cells.csv"].len()).filter(same);
        let sum: u64 = cells.map(|cell| number(format!("cells.csv:{cell}:lost"))).sum();
        assert_eq!(sum, count("lost"), "row {row}");
    }
}

/// What `model` leaves of a toy's script, sorted.
fn sorted(mistake: Mistake, model: FaultModel, script: &str) -> Counts {
    let workload = Workload::parse("toy", script).unwrap();
    let how = Measures { seed: 1, sets_max: 200, stopped: &|| false };
    let measured = Toy(mistake).measure(&workload, &how).unwrap();
    let index = FaultModel::ALL.iter().position(|other| *other == model).unwrap();
    measured.seen[index].counts
}

// spec: REPORT-1
#[test]
fn images_are_sorted_by_what_the_engine_answers() {
    const SCRIPT: &str = "add 1x20; add 2x1200; copy; add 3x700";
    for model in FaultModel::ALL {
        let right = sorted(Mistake::None, model, SCRIPT);
        assert!(right.images > 10, "{right:?}");
        assert_eq!(right, Counts { images: right.images, survivors: right.images, ..right });
        assert_eq!((right.older, right.detected, right.undetected), (0, 0, 0), "{right:?}");
    }
    // Without a flush an acknowledged record is missing, and what is there is an older state.
    let unflushed = sorted(Mistake::NoSync, FaultModel::ORDERED, SCRIPT);
    assert!(unflushed.older > 0, "{unflushed:?}");
    assert_eq!(unflushed.older, unflushed.lost_acknowledged);
    assert_eq!((unflushed.detected, unflushed.undetected), (0, 0), "{unflushed:?}");
    // Where data is not checked, a torn record is shown as if it were right; the record had not
    // been acknowledged, so nothing that was is missing.
    let unchecked = sorted(Mistake::UncheckedData, FaultModel::TORN, "add 2x1200");
    assert!(unchecked.undetected > 0, "{unchecked:?}");
    assert_eq!((unchecked.detected, unchecked.older, unchecked.lost_acknowledged), (0, 0, 0));
    assert_eq!(unchecked.survivors + unchecked.undetected, unchecked.images);
    // With a record before it that was, that one is not shown as it was either.
    let both = sorted(Mistake::UncheckedData, FaultModel::TORN, "add 1x20; add 2x1200");
    assert!(both.lost_acknowledged > 0, "{both:?}");
    assert_eq!(both.lost_acknowledged, both.undetected);
}

// spec: REPORT-3
#[test]
fn a_barrier_costs_one_flush_and_opening_reads_no_more_of_a_longer_file() {
    let directory = tempfile::tempdir().unwrap();
    let (_, report) = report(directory.path());
    let number = |origin: String| field(&report, &origin).unwrap().parse::<u64>().unwrap();
    let text = |origin: String| field(&report, &origin).unwrap().clone();
    let mut least = BTreeMap::new();
    for row in 1..report.tables["costs.csv"].len() {
        let flushes = number(format!("costs.csv:{row}:flushes_least"));
        least.entry(text(format!("costs.csv:{row}:protocol"))).or_insert(flushes);
    }
    assert_eq!((least["guide"], least["barrier"], least["verified"]), (2, 2, 1));
    let mut reads: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for row in 1..report.tables["recovery.csv"].len() {
        if number(format!("recovery.csv:{row}:bytes_aimed")) >= 65_536 {
            for column in ["reads", "bytes_read"] {
                let [protocol, ending] =
                    ["protocol", "ending"].map(|name| text(format!("recovery.csv:{row}:{name}")));
                let series = reads.entry(format!("{protocol} {ending} {column}")).or_default();
                series.push(number(format!("recovery.csv:{row}:{column}")));
            }
        }
    }
    assert_eq!(reads.len(), 18);
    for (series, counts) in reads {
        assert!(
            counts.len() >= 3 && counts.iter().all(|it| *it == counts[0]),
            "{series} {counts:?}"
        );
    }
}

// spec: REPORT-2
#[test]
fn a_figure_that_was_altered_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let (_, good) = report(directory.path());
    let with = |from: &str, to: &str| {
        let page = good.page.replacen(from, to, 1);
        assert_ne!(page, good.page, "the page has {from:?}");
        Report { page, tables: good.tables.clone() }
    };
    let images = &good.tables["run.csv"][1][6];
    let grouped = good.page.split(&format!("value=\"{images}\"")).nth(1).unwrap();
    let grouped = grouped.split(['>', '<']).nth(1).unwrap();
    for (altered, count) in [
        (with(&format!(">{grouped}<"), &format!(">1{grouped}<")), 1),
        (with(">loses<", ">survives<"), 1),
        (with("matrix.csv:1:images", "matrix.csv:2:images"), 1),
        (with("matrix.csv:1:images", "matrix.csv:99:images"), 1),
        (with("</h2>", " in 7 sentences</h2>"), 1),
        (with("<figcaption>", "<figcaption><p>"), 1),
        (with("<svg ", "<svg viewBox="), 1),
    ] {
        let wrong = wrong_figures(&altered);
        assert_eq!(wrong.len(), count, "{wrong:?}");
    }
    let mut tables = good.tables.clone();
    let survivors = tables.get_mut("matrix.csv").unwrap();
    survivors[1][8].push('0');
    assert!(!wrong_figures(&Report { page: good.page.clone(), tables }).is_empty());
    for foreigner in [
        "<script></script>",
        "<img src=\"a.png\"/>",
        "<a href=\"elsewhere.html\">a</a>",
        "<b onclick=\"a()\">a</b>",
        "<style>b { background: url(a) }</style>",
    ] {
        let page = good.page.replacen("</main>", &format!("{foreigner}</main>"), 1);
        assert!(!foreign(&page).is_empty(), "{foreigner}");
    }
}

/// The words of a command, quoted ones whole.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for letter in command.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(letter),
        }
    }
    words.push(word);
    words
}

// spec: REPORT-4
#[test]
fn the_command_beside_a_loss_shows_it_again_and_no_shorter_script_was_found() {
    let directory = tempfile::tempdir().unwrap();
    let (_, report) = report(directory.path());
    for (table, operations) in [("shortest.csv", 1), ("crash.csv", 2)] {
        let command = words(field(&report, &format!("{table}:1:replay")).unwrap());
        assert_eq!(command[..3], ["cargo", "oracle", "replay"]);
        let pairs = command[3..].chunks(2);
        let arguments: Vec<(String, String)> =
            pairs.map(|pair| (pair[0][2..].to_owned(), pair[1].clone())).collect();
        let script = &arguments.iter().find(|(name, _)| name == "script").unwrap().1;
        assert_eq!(script.split("; ").count(), operations, "{script}");
        let replay = |arguments: Vec<(String, String)>| {
            let context = Context { loud: false, arguments, ..Context::new(PathBuf::new()) };
            let campaign = CAMPAIGNS.iter().find(|campaign| campaign.name == "replay").unwrap();
            (campaign.run)(&context).unwrap()
        };
        assert_eq!(replay(arguments.clone()).failed, 1, "{command:?}");
        let harmless = arguments.into_iter().map(|(name, value)| match &*name {
            "choice" => (name, "keep=none".to_owned()),
            _ => (name, value),
        });
        assert_eq!(replay(harmless.collect()).failed, 0, "nothing of it is no loss");
    }
    // Under the others, the very same script stands.
    for row in [2, 3] {
        let fields = ["outcome", "bare_footers", "bare_footers_survived"];
        let [outcome, bare, survived] =
            fields.map(|column| field(&report, &format!("crash.csv:{row}:{column}")).unwrap());
        assert_eq!((&**outcome, bare), ("survives", survived));
    }
}

// spec: REPORT-1, REPORT-2
#[test]
fn the_report_of_a_broken_engine_says_so() {
    let directory = tempfile::tempdir().unwrap();
    mark::plant(Some("cover-not-checked"));
    let (figures, report) = report(directory.path());
    mark::plant(None);
    assert!(figures.failed > 0 && !figures.succeeded(), "{figures}");
    assert_eq!(wrong_figures(&report), [""; 0]);
    let matrix = &report.tables["matrix.csv"];
    let row = matrix.iter().find(|row| row[..2] == ["verified", "reorder"]).unwrap();
    assert_eq!(row[2..4], ["survives", "loses"]);
    assert!(report.page.contains("the specification says otherwise"));
    assert!(report.page.contains("Not what this protocol is meant to do."));
}

// spec: REPORT-1
#[test]
fn equal_seeds_give_equal_files() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ((_, one), (_, two)) = (report(first.path()), report(second.path()));
    assert!(one.page == two.page, "the pages differ");
    assert!(one.tables == two.tables, "the tables differ");
}
