//! One query of one set of rows, as a value: it prints as JSON, parses, and shrinks.
//!
//! ```text
//! {"design":"btree","fan_out":2,"reducer":"_sum","order":7,"rows":[["a",[1,2],5]],
//!  "query":{"startkey":[1],"group_level":1}}
//! ```

use rereduce::collate::Collation;
use rereduce::doc::write_stored;
use rereduce::vocabulary::{Direction, Json};
use rereduce_model::{ModelRow, ViewBound, ViewQuery};

/// The rows of a view, how they are kept, and what they are reduced by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) design: String,
    /// Entries of a node at most.
    pub(super) fan_out: usize,
    pub(super) collation: Collation,
    pub(super) reducer: String,
    /// The order in which rows come, and which others come and go, follow from this.
    pub(super) order: u64,
    /// Rows as documents emit them.
    pub(super) rows: Vec<ModelRow>,
}

impl Default for Kept {
    fn default() -> Kept {
        let (design, reducer) = ("btree".to_owned(), "list".to_owned());
        let (fan_out, collation, order) = (2, Collation::Unicode, 0);
        Kept { design, fan_out, collation, reducer, order, rows: Vec::new() }
    }
}

/// A query of kept rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) kept: Kept,
    pub(super) query: ViewQuery,
}

impl Case {
    /// The case on one line.
    pub(super) fn print(&self) -> String {
        let Case { kept, query } = self;
        let mut members = vec![
            ("design", Json::from(&*kept.design)),
            ("fan_out", number(kept.fan_out)),
            ("reducer", Json::from(&*kept.reducer)),
        ];
        if kept.collation == Collation::Raw {
            members.push(("collation", Json::from("raw")));
        }
        if kept.order > 0 {
            members.push(("order", Json::unsigned(kept.order)));
        }
        let row = |row: &ModelRow| {
            Json::Array(vec![Json::from(&*row.id), row.key.clone(), row.value.clone()])
        };
        members.push(("rows", Json::Array(kept.rows.iter().map(row).collect())));
        members.push(("query", query_json(query)));
        let mut text = Vec::new();
        // As it is stored, so that zeros keep their sign.
        write_stored(&object(members), &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Reads what [`Case::print`] wrote.
    pub(super) fn parse(text: &str) -> Result<Case, String> {
        let json = Json::parse(text.as_bytes()).map_err(|error| format!("{text}: {error}"))?;
        let word = |name| json.member(name).and_then(Json::as_str).map(str::to_owned);
        let row = |row: &Json| match row {
            Json::Array(parts) => match &parts[..] {
                [Json::String(id), key, value] => {
                    let (key, value) = (key.clone(), value.clone());
                    Ok(ModelRow { key, id: id.clone(), value })
                }
                _ => Err(format!("a row is [id, key, value], not {row}")),
            },
            _ => Err(format!("a row is [id, key, value], not {row}")),
        };
        let rows = match json.member("rows") {
            Some(Json::Array(rows)) => rows.iter().map(row).collect::<Result<_, String>>()?,
            _ => return Err("a case has rows".to_owned()),
        };
        let plain = Kept::default();
        let kept = Kept {
            design: word("design").unwrap_or(plain.design),
            fan_out: count(&json, "fan_out")?.unwrap_or(plain.fan_out),
            collation: match word("collation").as_deref() {
                Some("raw") => Collation::Raw,
                _ => Collation::Unicode,
            },
            reducer: word("reducer").unwrap_or(plain.reducer),
            order: count(&json, "order")?.unwrap_or(0) as u64,
            rows,
        };
        let query = json.member("query").map(parse_query).transpose()?.unwrap_or_default();
        Ok(Case { kept, query })
    }

    /// Cases that are simpler in one place.
    fn simpler(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        let mut but = |change: &dyn Fn(&mut Case)| {
            let mut simpler = self.clone();
            change(&mut simpler);
            if simpler != *self {
                cases.push(simpler);
            }
        };
        for index in 0..self.kept.rows.len() {
            but(&|case| drop(case.kept.rows.remove(index)));
        }
        but(&|case| case.query.keys = None);
        but(&|case| case.query.start = None);
        but(&|case| case.query.end = None);
        let without_id = |bound: &mut Option<ViewBound>| {
            if let Some((_, id)) = bound {
                *id = None;
            }
        };
        but(&|case| without_id(&mut case.query.start));
        but(&|case| without_id(&mut case.query.end));
        but(&|case| case.query.inclusive_end = true);
        but(&|case| case.query.direction = Direction::Ascending);
        but(&|case| case.query.skip = 0);
        but(&|case| case.query.limit = None);
        if self.query.keys.is_none() {
            but(&|case| case.query.group_level = 0);
        }
        but(&|case| case.kept.order = 0);
        but(&|case| case.kept.fan_out = 2);
        but(&|case| case.kept.collation = Collation::Unicode);
        cases
    }

    /// The simplest case found that `fails`, and how.
    pub(super) fn shrunk(
        mut self,
        mut violation: String,
        fails: impl Fn(&Case) -> Result<(), String>,
    ) -> (Case, String) {
        loop {
            let simpler = self.simpler().into_iter();
            let mut failing = simpler.filter_map(|case| fails(&case).err().map(|it| (case, it)));
            match failing.next() {
                Some(found) => (self, violation) = found,
                None => return (self, violation),
            }
        }
    }
}

fn object(members: Vec<(&str, Json)>) -> Json {
    Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn number(number: usize) -> Json {
    Json::unsigned(number as u64)
}

/// The parameters of a query, as CouchDB calls them.
fn query_json(query: &ViewQuery) -> Json {
    let mut members = Vec::new();
    let bounds = [("startkey", &query.start), ("endkey", &query.end)];
    for ((name, bound), docid) in bounds.into_iter().zip(["startkey_docid", "endkey_docid"]) {
        if let Some((key, id)) = bound {
            members.push((name, key.clone()));
            members.extend(id.as_deref().map(|id| (docid, Json::from(id))));
        }
    }
    if !query.inclusive_end {
        members.push(("inclusive_end", Json::Bool(false)));
    }
    members.extend(query.keys.clone().map(|keys| ("keys", Json::Array(keys))));
    if query.direction == Direction::Descending {
        members.push(("descending", Json::Bool(true)));
    }
    if query.skip > 0 {
        members.push(("skip", number(query.skip)));
    }
    members.extend(query.limit.map(|limit| ("limit", number(limit))));
    match query.group_level {
        0 => {}
        usize::MAX => members.push(("group", Json::Bool(true))),
        level => members.push(("group_level", number(level))),
    }
    object(members)
}

fn parse_query(json: &Json) -> Result<ViewQuery, String> {
    let bound = |key: &str, docid: &str| {
        let id = json.member(docid).and_then(Json::as_str).map(str::to_owned);
        json.member(key).map(|key| (key.clone(), id))
    };
    let is = |name, value| json.member(name) == Some(&Json::Bool(value));
    let exact = is("group", true).then_some(usize::MAX);
    Ok(ViewQuery {
        start: bound("startkey", "startkey_docid"),
        end: bound("endkey", "endkey_docid"),
        inclusive_end: !is("inclusive_end", false),
        keys: match json.member("keys") {
            Some(Json::Array(keys)) => Some(keys.clone()),
            _ => None,
        },
        direction: match is("descending", true) {
            true => Direction::Descending,
            false => Direction::Ascending,
        },
        skip: count(json, "skip")?.unwrap_or(0),
        limit: count(json, "limit")?,
        group_level: exact.or(count(json, "group_level")?).unwrap_or(0),
    })
}

fn count(json: &Json, name: &str) -> Result<Option<usize>, String> {
    let number = |value: &Json| value.to_string().parse().map_err(|_| format!("{name} is {value}"));
    json.member(name).map(number).transpose()
}
