//! What is refused, in CouchDB's words: the one table from errors to answers.
//!
//! ```text
//!   Error ──> status, error, reason ──> {"error":"...","reason":"..."}
//! ```
//!
//! Invariant: every error has an answer, and the class of the error decides its status.

use crate::checksum::crc32c;
use crate::error::{Error, ErrorClass};
use crate::mark;
use crate::vocabulary::Json;

use super::response::Response;

/// What a request that is refused is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    status: u16,
    error: String,
    reason: String,
    /// Whether the answer has a number by which a log would find it.
    traced: bool,
    allow: Option<&'static str>,
}

/// What handling a request comes to.
pub(super) type Outcome<T> = std::result::Result<T, Refusal>;

impl Refusal {
    pub(super) fn new(status: u16, error: impl Into<String>, reason: impl Into<String>) -> Refusal {
        let (error, reason) = (error.into(), reason.into());
        Refusal { status, error, reason, traced: false, allow: None }
    }

    pub(super) fn bad_request(reason: &str) -> Refusal {
        Refusal::new(400, "bad_request", reason)
    }

    pub(super) fn not_found(reason: &str) -> Refusal {
        Refusal::new(404, "not_found", reason)
    }

    /// A method that a path does not have; `allow` lists those that it has.
    pub(super) fn method(allow: &'static str) -> Refusal {
        let reason = format!("Only {allow} allowed");
        Refusal { allow: Some(allow), ..Refusal::new(405, "method_not_allowed", reason) }
    }

    /// As an error that came up while an index was read or built is answered.
    // spec: HTTP-3
    pub(super) fn traced(error: Error) -> Refusal {
        Refusal { traced: true, ..Refusal::from(error) }
    }

    /// Of a function that does not compile when it is written, which is the writer's fault.
    pub(super) fn of_write(error: Error) -> Refusal {
        match error {
            Error::Function { name, reason } if name == "compilation_error" => {
                Refusal::new(400, name, reason)
            }
            error => Refusal::from(error),
        }
    }

    /// The members of an answer, or of a row that failed.
    pub(super) fn members(&self) -> Vec<(String, Json)> {
        let mut members = vec![
            ("error".to_owned(), Json::from(self.error.as_str())),
            ("reason".to_owned(), Json::from(self.reason.as_str())),
        ];
        if self.traced {
            let number = crc32c(format!("{}: {}", self.error, self.reason).as_bytes());
            members.push(("ref".to_owned(), Json::from(i64::from(number))));
        }
        members
    }

    pub(super) fn response(&self) -> Response {
        let response = Response::json(self.status, &Json::Object(self.members()));
        match self.allow {
            Some(allow) if !mark::planted("allow-left-out") => response.with("allow", allow),
            _ => response,
        }
    }

    /// The answer for one document among several.
    pub(super) fn row(&self, id: &str) -> Json {
        let mut members = vec![("id".to_owned(), Json::from(id))];
        members.extend(self.members());
        Json::Object(members)
    }
}

impl From<Error> for Refusal {
    // spec: HTTP-3
    fn from(error: Error) -> Refusal {
        match &error {
            Error::Conflict { .. } => Refusal::new(409, "conflict", "Document update conflict."),
            Error::Deleted { .. } if mark::planted("deleted-looks-missing") => {
                Refusal::not_found("missing")
            }
            Error::Deleted { .. } => Refusal::not_found("deleted"),
            Error::Missing { what, name } => missing(what, name),
            Error::InvalidDesignDoc { reason } => Refusal::new(400, "invalid_design_doc", reason),
            Error::InvalidQuery { reason } => Refusal::new(400, "query_parse_error", reason),
            Error::InvalidValue { reason } => Refusal::new(500, "invalid_value", reason),
            Error::Function { name, reason } => function(name, reason),
            Error::BadInput { what, got, expected } => bad_input(what, got, expected),
            Error::TooLarge { .. } => Refusal::new(413, "document_too_large", error.to_string()),
            other => Refusal::new(by_class(other.class()), "internal_error", other.to_string()),
        }
    }
}

fn by_class(class: ErrorClass) -> u16 {
    match class {
        ErrorClass::Missing => 404,
        ErrorClass::Conflict => 409,
        ErrorClass::BadInput => 400,
        ErrorClass::Limit => 413,
        ErrorClass::Busy | ErrorClass::Refused | ErrorClass::Cancelled => 503,
        ErrorClass::Io
        | ErrorClass::Corrupt
        | ErrorClass::NotADatabase
        | ErrorClass::NewerFormat
        | ErrorClass::Function => 500,
    }
}

fn missing(what: &str, name: &str) -> Refusal {
    match what {
        "attachment stub" => {
            Refusal::new(412, "missing_stub", format!("Invalid attachment stub in {name}"))
        }
        "attachment" => Refusal::not_found("Document is missing attachment"),
        "function" => Refusal::not_found("missing function"),
        "database" => Refusal::not_found("Database does not exist."),
        "view" => Refusal::not_found("missing_named_view"),
        "member of a design document" => Refusal::not_found(&format!("missing json key: {name}")),
        _ => Refusal::not_found("missing"),
    }
}

/// A function may refuse in words of its own.
fn function(name: &str, reason: &str) -> Refusal {
    let status = match name {
        "forbidden" => 403,
        "unauthorized" => 401,
        "not_found" => 404,
        _ => 500,
    };
    Refusal::new(status, name, reason)
}

fn bad_input(what: &str, got: &str, expected: &str) -> Refusal {
    match what {
        "JSON" => Refusal::bad_request("invalid UTF-8 JSON"),
        "request body" => Refusal::bad_request("Request body must be a JSON object"),
        "member keys" => Refusal::bad_request("`keys` member must be an array."),
        "document" => Refusal::bad_request("Document must be a JSON object"),
        "special member" => {
            let reason = format!("Bad special document member: {got}");
            Refusal::new(400, "doc_validation", reason)
        }
        "document id" => {
            let reason = match got {
                "" => "Document id must not be empty",
                _ => "Only reserved document ids may start with underscore.",
            };
            Refusal::new(400, "illegal_docid", reason)
        }
        "revision" => Refusal::bad_request("Invalid rev format"),
        _ => Refusal::bad_request(&format!("{what} {got:?}: expected {expected}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: HTTP-3
    #[test]
    fn each_error_is_answered_in_couchdbs_words() {
        let conflict = Refusal::from(Error::Conflict { id: "a".into() }).response();
        assert_eq!(conflict.status, 409);
        let text = String::from_utf8(conflict.body).unwrap();
        assert_eq!(text, "{\"error\":\"conflict\",\"reason\":\"Document update conflict.\"}\n");
        let busy = Refusal::from(Error::Locked { path: "db".into() }).response();
        assert_eq!(busy.status, 503);
        let query = Refusal::traced(Error::InvalidQuery { reason: "no".into() });
        assert_eq!(query.members().len(), 3, "the third is a number");
        let refused = Refusal::method("GET,HEAD").response();
        assert_eq!(refused.header("allow"), Some("GET,HEAD"));
    }
}
