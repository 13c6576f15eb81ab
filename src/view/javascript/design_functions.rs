//! The functions of a design document beside its views: filters, updates, shows, validation.
//!
//! Invariant: a function is compiled when it is first called, in a realm of its own, and `require`
//! finds modules anywhere in the design document.

use crate::error::{Error, Result};
use crate::mark;
use crate::view::javascript::machine::{Add, Machine};
use crate::view::javascript::{JavaScript, text};
use crate::view::wire;
use crate::vocabulary::Json;

/// The functions of one design document, at work in one thread.
///
/// A path names a function as the design document does: `["filters", "mine"]`. Whatever a function
/// throws for good is an [`Error::Function`]: `name` is `forbidden` or `unauthorized` where it
/// threw an object with that member, `render_error` where an update or show function raised an
/// error, the name of the error otherwise. A missing function has the name `not_found`, one that
/// does not compile `compilation_error`. After an `os_process_error` the functions are of no more
/// use.
///
/// ```
/// use rereduce::view::javascript::{DesignFunctions, JavaScript, Limits};
/// use rereduce::vocabulary::Json;
/// let design = br#"{"filters":{"big":"function(doc, req) { return doc.n > req.query.min; }"}}"#;
/// let language = JavaScript::new(Limits::default());
/// let mut functions = DesignFunctions::new(&Json::parse(design)?, &language)?;
/// let document = Json::parse(br#"{"_id":"a","n":3}"#)?;
/// let request = Json::parse(br#"{"query":{"min":"2"}}"#)?;
/// assert!(functions.filter(&["filters", "big"], &document, &request)?);
/// # Ok::<(), rereduce::Error>(())
/// ```
pub struct DesignFunctions {
    machine: Machine,
}

impl DesignFunctions {
    /// The functions of `design`, a whole design document.
    pub fn new(design: &Json, language: &JavaScript) -> Result<DesignFunctions> {
        let machine = Machine::start(language)?;
        machine.call::<()>("setDesign", (text::written(design),))?;
        Ok(DesignFunctions { machine })
    }

    /// Whether a filter function lets `document` pass.
    // spec: JS-12
    pub fn filter(&mut self, path: &[&str], document: &Json, request: &Json) -> Result<bool> {
        Ok(is_truthy(&self.apply(path, &[document, request])?))
    }

    /// What an update function makes of `document`, which is null if there is none: the document
    /// to write, or null, and the response, in the form `{"body": ...}` if it is a string.
    // spec: JS-12
    pub fn update(
        &mut self,
        path: &[&str],
        document: &Json,
        request: &Json,
    ) -> Result<(Json, Json)> {
        let Json::Array(result) = self.apply(path, &[document, request])? else {
            return Err(render_error("undefined response from update function"));
        };
        let mut result = result.into_iter();
        let document = result.next().unwrap_or(Json::Null);
        let response = result.next().unwrap_or(Json::Null);
        Ok((document, wrapped(response, "update")?))
    }

    /// What a show function answers about `document`, which is null if there is none: a response,
    /// in the form `{"body": ...}` if it is a string.
    // spec: JS-12
    pub fn show(&mut self, path: &[&str], document: &Json, request: &Json) -> Result<Json> {
        wrapped(self.apply(path, &[document, request])?, "show")
    }

    /// Asks `validate_doc_update` whether `document` may replace `old`, which is null if there is
    /// none. It is refused with [`Error::Function`] of the name `forbidden` or `unauthorized`.
    // spec: JS-12
    pub fn validate(
        &mut self,
        document: &Json,
        old: &Json,
        user: &Json,
        security: &Json,
    ) -> Result<()> {
        self.apply(&["validate_doc_update"], &[document, old, user, security]).map(|_| ())
    }

    /// What the function at `path` returns for `arguments`; null for what JSON cannot hold.
    pub fn apply(&mut self, path: &[&str], arguments: &[&Json]) -> Result<Json> {
        let path: Vec<Json> = path.iter().map(|&name| Json::from(name)).collect();
        let path = wire::list_of(path.iter());
        if let Some(source) = self.machine.call::<Option<String>>("wanted", (path.as_str(),))? {
            self.machine.add(Add::Function(&path), &source)?;
        }
        let arguments = wire::list_of(arguments.iter().copied());
        let value: String = self.machine.call("apply", (path, arguments))?;
        text::only_value(&value)
    }
}

fn wrapped(response: Json, kind: &str) -> Result<Json> {
    match response {
        Json::String(_) if mark::planted("js-strings-are-no-responses") => Ok(response),
        Json::String(_) => Ok(Json::Object(vec![("body".to_owned(), response)])),
        Json::Object(_) => Ok(response),
        _ => Err(render_error(&format!("undefined response from {kind} function"))),
    }
}

fn render_error(reason: &str) -> Error {
    Error::Function { name: "render_error".to_owned(), reason: reason.to_owned() }
}

/// Whether JavaScript takes `value` for true.
fn is_truthy(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => false,
        Json::String(text) => !text.is_empty(),
        Json::Number(_) => ![Json::from(0), Json::from(0.0), Json::from(-0.0)].contains(value),
        Json::Bool(true) | Json::Array(_) | Json::Object(_) => true,
    }
}
