//! Reading the parameters of a query: names and values of a URL, members of a body.
//!
//! Invariant: parameters are read in their order, a later one takes the place of an earlier one,
//! and whatever a name or a value is, it is read, passed over or refused with a reason.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::mark;
use crate::view::index::Update;
use crate::vocabulary::{Json, Number};

use super::{ViewQuery, term};

/// The largest `limit` that CouchDB takes.
const LIMIT_MAX: u64 = 576_460_752_303_423_487;

/// A value as it was sent.
#[derive(Clone, Copy)]
enum Value<'a> {
    /// The text behind a name in a URL, without its escapes.
    Text(&'a [u8]),
    /// The value of a member.
    Json(&'a Json),
}

impl ViewQuery {
    /// The query that a URL and a JSON body ask for; what the URL says comes first.
    ///
    /// Names that mean nothing are passed over. Errors: [`Error::InvalidQuery`] for a value that
    /// its parameter cannot have, [`Error::BadInput`] for what is not JSON where it should be, and
    /// for a body that is no object or whose `keys` are no array. Which parameters may stand
    /// together is looked at by [`ViewQuery::check`], since that depends on the view.
    // spec: QUERY-1, QUERY-2
    pub fn read<'a, T: AsRef<[u8]> + ?Sized + 'a>(
        url: impl IntoIterator<Item = (&'a str, &'a T)>,
        body: Option<&Json>,
    ) -> Result<ViewQuery> {
        let mut query = ViewQuery::default();
        if let Some(body) = body {
            query.read_body(body)?;
        }
        for (name, value) in url {
            query.read_value(name, Value::Text(value.as_ref()))?;
        }
        if let Some(body) = body.filter(|_| mark::planted("body-after-url")) {
            query.read_body(body)?;
        }
        Ok(query)
    }

    fn read_body(&mut self, body: &Json) -> Result<()> {
        let Json::Object(members) = body else {
            return Err(bad("request body", body, "a JSON object"));
        };
        match body.member("keys") {
            None | Some(Json::Array(_)) => {}
            Some(other) => return Err(bad("member keys", other, "an array")),
        }
        members.iter().try_for_each(|(name, value)| self.read_value(name, Value::Json(value)))
    }

    fn read_value(&mut self, name: &str, value: Value<'_>) -> Result<()> {
        match name {
            "key" => {
                let key = value.json()?;
                (self.start_key, self.end_key) = (Some(key.clone()), Some(key));
            }
            "keys" => self.set_keys(value.json()?),
            "startkey" | "start_key" => self.start_key = Some(value.json()?),
            "endkey" | "end_key" => self.end_key = Some(value.json()?),
            "startkey_docid" | "start_key_doc_id" => {
                self.start_key_docid = Some(value.id("`start_key_docid` must be a string.")?);
            }
            "endkey_docid" | "end_key_doc_id" => {
                self.end_key_docid = Some(value.id("`end_key_docid` must be a string.")?);
            }
            "limit" => self.limit = Some(value.limit()?),
            "skip" => self.skip = value.count()?,
            "group" => self.group = Some(value.boolean()?),
            "group_level" => self.group_level = Some(value.count()?),
            "reduce" => self.reduce = Some(value.boolean()?),
            "descending" => self.descending = value.boolean()?,
            "inclusive_end" => self.inclusive_end = value.boolean()?,
            "include_docs" => self.include_docs = value.boolean()?,
            "conflicts" => self.conflicts = Some(value.boolean()?),
            "attachments" => self.attachments = value.boolean()?,
            "att_encoding_info" => self.att_encoding_info = value.boolean()?,
            "update_seq" => self.update_seq = value.boolean()?,
            "sorted" => self.sorted = value.boolean()?,
            "stable" => self.stable = value.word("stable", &[("true", true), ("false", false)])?,
            "update" => {
                let words =
                    [("true", Update::True), ("false", Update::False), ("lazy", Update::Lazy)];
                self.update = value.word("update", &words)?;
            }
            "stale" => {
                let words = [("ok", Update::False), ("update_after", Update::Lazy)];
                self.update = value.word("stale", &words)?;
                self.stable = true;
            }
            "partition" => self.partition = true,
            _ => mark::hit("unknown-parameter-passed-over"),
        }
        Ok(())
    }

    /// A list of one key is that key.
    // spec: QUERY-3
    fn set_keys(&mut self, keys: Json) {
        match keys {
            Json::Array(keys) if keys.len() == 1 && !mark::planted("one-key-stays-a-list") => {
                let key = keys.into_iter().next();
                (self.start_key, self.end_key) = (key.clone(), key);
                self.keys = None;
            }
            keys => self.keys = Some(keys),
        }
    }
}

impl Value<'_> {
    fn json(self) -> Result<Json> {
        match self {
            Value::Json(json) => Ok(json.clone()),
            Value::Text(text) => Json::parse(text).map_err(|_| Error::BadInput {
                what: "JSON",
                got: shortened(&String::from_utf8_lossy(text)),
                expected: "JSON in UTF-8",
            }),
        }
    }

    /// The text, if it is one.
    fn text(self) -> Option<Cow<'static, str>> {
        match self {
            Value::Text(text) => Some(String::from_utf8_lossy(text).into_owned().into()),
            Value::Json(Json::String(text)) => Some(text.clone().into()),
            Value::Json(Json::Bool(true)) => Some("true".into()),
            Value::Json(Json::Bool(false)) => Some("false".into()),
            Value::Json(_) => None,
        }
    }

    fn id(self, reason: &str) -> Result<String> {
        match self {
            Value::Json(Json::String(id)) => Ok(id.clone()),
            Value::Json(_) => Err(invalid(reason)),
            Value::Text(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        }
    }

    fn boolean(self) -> Result<bool> {
        match self.text().map(|text| text.to_lowercase()).as_deref() {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            _ => Err(invalid(&format!("Invalid boolean parameter: {}", self.term()))),
        }
    }

    fn word<T: Copy>(self, name: &str, words: &[(&str, T)]) -> Result<T> {
        let text = self.text();
        let found = words.iter().find(|(word, _)| Some(*word) == text.as_deref());
        found
            .map(|(_, meaning)| *meaning)
            .ok_or_else(|| invalid(&format!("Invalid value for `{name}`.")))
    }

    /// A whole number that is not negative; one beyond 64 bits counts as the largest.
    // spec: QUERY-2, QUERY-10
    fn count(self) -> Result<u64> {
        let digits = match self {
            Value::Text(text) => std::str::from_utf8(text).ok().map(str::to_owned),
            Value::Json(Json::Number(Number::Integer(number))) => Some(number.to_string()),
            Value::Json(Json::Number(Number::Big(number))) => Some(number.digits().to_owned()),
            Value::Json(_) => None,
        };
        let whole = digits.as_deref().and_then(|text| {
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let count = digits.parse().unwrap_or_else(|_| {
                assert!(!mark::planted("large-count-panics"), "{digits} has more than 64 bits");
                u64::MAX
            });
            is_number.then(|| (text.starts_with('-'), count))
        });
        match whole {
            Some((true, 1..)) if !mark::planted("negative-counts-from-zero") => {
                Err(invalid(&format!("Invalid value for positive integer: {}", self.term())))
            }
            Some((_, count)) => Ok(count),
            None => Err(invalid(&format!("Invalid value for integer: {}", self.term()))),
        }
    }

    fn limit(self) -> Result<u64> {
        match self.count()? {
            limit if limit > LIMIT_MAX => {
                Err(invalid(&format!("Limit is too large, must not exceed {LIMIT_MAX}")))
            }
            limit => Ok(limit),
        }
    }

    fn term(self) -> String {
        match self {
            Value::Text(text) => term::of_text(text),
            Value::Json(json) => term::of_json(json),
        }
    }
}

fn bad(what: &'static str, got: &Json, expected: &'static str) -> Error {
    Error::BadInput { what, got: shortened(&got.to_string()), expected }
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

pub(super) fn invalid(reason: &str) -> Error {
    Error::InvalidQuery { reason: reason.to_owned() }
}
