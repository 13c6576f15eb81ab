//! What was sent to a writing process and what it acknowledged, kept outside of that process.
//!
//! ```text
//! sent:          batch 1   batch 2   batch 3   batch 4   batch 5
//! acknowledged:  yes       yes       no        no        no
//! afterwards:    whole     whole     whole     nothing   nothing
//!                                    or nothing
//! ```
//!
//! Invariant: a batch is in the log before its first byte goes out, so what is in the database and
//! not in the log was made up by the database.

use std::collections::BTreeMap;

use rereduce::vocabulary::Json;

use crate::random::Random;

/// Documents that are written again and again; all others are written once.
const REWRITTEN: u64 = 12;

/// A record as it is sent, and what must be found of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    id: String,
    /// The revision, where the sender chose it.
    rev: Option<String>,
    text: String,
    line: String,
}

/// What was sent to a database, in batches, and how much of it was acknowledged.
///
/// ```
/// use rereduce_crash_sim::SentLog;
/// let mut log = SentLog::new(1);
/// let line = log.next_batch(1).concat();
/// assert!(line.ends_with('\n'));
/// // A dump holds the record, with a revision.
/// let dump = line.replacen('{', r#"{"_rev":"1-a","#, 1);
/// assert_eq!(log.judge(&dump), Ok(1), "it may be there whole");
/// assert_eq!(log.judge(""), Ok(0), "or not at all");
/// log.acknowledge(1);
/// assert!(log.judge("").is_err());
/// ```
#[derive(Clone)]
pub struct SentLog {
    random: Random,
    made: u64,
    /// How often each of the rewritten documents was written.
    generations: BTreeMap<u64, u64>,
    /// What must be there.
    sure: BTreeMap<String, Sent>,
    /// Batches that were sent and not acknowledged, the oldest first.
    open: Vec<Vec<Sent>>,
}

impl SentLog {
    /// An empty log; what it will send depends on `seed`.
    pub fn new(seed: u64) -> SentLog {
        let (generations, sure) = (BTreeMap::new(), BTreeMap::new());
        SentLog { random: Random::new(seed), made: 0, generations, sure, open: Vec::new() }
    }

    /// Makes a batch of `count` records, notes it as sent, and gives its lines. Either all records
    /// are new documents or all are revisions of the sender's own, as a batch of both is two
    /// commits.
    pub fn next_batch(&mut self, count: usize) -> Vec<String> {
        let revisions = self.random.below(3) == 0;
        let batch: Vec<Sent> = (0..count).map(|_| self.record(revisions)).collect();
        let lines = batch.iter().map(|sent| sent.line.clone()).collect();
        self.open.push(batch);
        lines
    }

    fn record(&mut self, revision: bool) -> Sent {
        self.made += 1;
        let number = self.made;
        let filler = char::from(b'a' + self.random.below(26) as u8);
        let text = format!("{number}{}", filler.to_string().repeat(self.size()));
        if !revision {
            let id = format!("n{number:08}");
            let line = format!("{{\"_id\":\"{id}\",\"text\":\"{text}\"}}\n");
            return Sent { id, rev: None, text, line };
        }
        let which = self.random.below(REWRITTEN);
        let generation = self.generations.entry(which).or_default();
        *generation += 1;
        let (id, newest) = (format!("r{which:02}"), *generation);
        // Enough ancestors to find the parent, however many revisions a batch has of it.
        let ids: Vec<String> = (newest.saturating_sub(30).max(1)..=newest)
            .rev()
            .map(|n| format!("\"{n:032x}\""))
            .collect();
        let line = format!(
            "{{\"_id\":\"{id}\",\"_revisions\":{{\"start\":{newest},\"ids\":[{}]}},\"text\":\"{text}\"}}\n",
            ids.join(",")
        );
        Sent { id, rev: Some(format!("{newest}-{newest:032x}")), text, line }
    }

    /// Mostly small, sometimes more than a block.
    fn size(&mut self) -> usize {
        match self.random.below(10) {
            0 => self.random.below(9000) as usize,
            _ => self.random.below(300) as usize,
        }
    }

    /// How many batches are sent and not acknowledged.
    pub fn open_batches(&self) -> usize {
        self.open.len()
    }

    /// How many documents must be there.
    pub fn sure_documents(&self) -> usize {
        self.sure.len()
    }

    /// The oldest `count` open batches must be there from now on.
    pub fn acknowledge(&mut self, count: usize) {
        let count = count.min(self.open.len());
        for sent in self.open.drain(..count).flatten() {
            self.sure.insert(sent.id.clone(), sent);
        }
    }

    /// Forgets all open batches: they were not there when one looked, and their sender is dead.
    pub fn give_up(&mut self) {
        for sent in std::mem::take(&mut self.open).into_iter().flatten() {
            let Some(which) = sent.id.strip_prefix('r').and_then(|id| id.parse().ok()) else {
                continue;
            };
            let known = self.sure.get(&sent.id).and_then(|sure| sure.rev.as_deref());
            let generation = known.and_then(|rev| rev.split('-').next()?.parse().ok());
            self.generations.insert(which, generation.unwrap_or(0));
        }
    }

    /// Compares with what `dump` prints: all that is sure, then the oldest open batch whole or not
    /// at all, and nothing else. The answer is how many open batches are there, 0 or 1.
    ///
    /// # Errors
    ///
    /// What is missing, what is wrong, or what nobody sent.
    // spec: CRASH-22
    pub fn judge(&self, dump: &str) -> Result<usize, String> {
        let mut found = BTreeMap::new();
        for line in dump.lines() {
            let (id, rev, text) = document(line)?;
            if found.insert(id.clone(), (rev, text)).is_some() {
                return Err(format!("{id} is there twice"));
            }
        }
        let mut with_batch = self.sure.clone();
        for sent in self.open.first().into_iter().flatten() {
            with_batch.insert(sent.id.clone(), sent.clone());
        }
        match (differs(&self.sure, &found), differs(&with_batch, &found)) {
            (None, _) => Ok(0),
            (_, None) => Ok(1),
            (Some(without), Some(with)) if without == with => Err(without),
            (Some(without), Some(with)) => {
                Err(format!("{without}; and if the batch in flight was written: {with}"))
            }
        }
    }
}

fn differs(
    expected: &BTreeMap<String, Sent>,
    found: &BTreeMap<String, (String, String)>,
) -> Option<String> {
    for (id, sent) in expected {
        let Some((rev, text)) = found.get(id) else { return Some(format!("{id} is missing")) };
        if sent.rev.as_ref().is_some_and(|sent| sent != rev) || sent.text != *text {
            let expected = sent.rev.as_deref().unwrap_or("any revision");
            return Some(format!(
                "{id}: expected {expected} with {}, found {rev}",
                head(&sent.text)
            ));
        }
    }
    let made_up = found.keys().find(|id| !expected.contains_key(*id));
    made_up.map(|id| format!("{id} is there and was never sent, or not yet"))
}

fn head(text: &str) -> String {
    text.chars().take(16).collect()
}

/// Id, revision and text of a line of a dump.
fn document(line: &str) -> Result<(String, String, String), String> {
    let shown = || line.chars().take(60).collect::<String>();
    let json = Json::parse(line.as_bytes()).map_err(|error| format!("{}: {error}", shown()))?;
    let member = |name| match json.member(name) {
        Some(Json::String(text)) => Ok(text.clone()),
        _ => Err(format!("a document without {name}: {}", shown())),
    };
    // With --all a revision comes as `_rev` too.
    Ok((member("_id")?, member("_rev")?, member("text")?))
}
