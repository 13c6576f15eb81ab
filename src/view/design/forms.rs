//! The forms that the members of a design document must have.
//!
//! Invariant: members are looked at in CouchDB's order, so of several that are wrong its first one
//! is named; a member that is not listed may have any form.

use crate::error::{Error, Result};
use crate::mark;
use crate::vocabulary::Json;

/// A type that a member may have.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Array,
    Boolean,
    Object,
    String,
}

impl Form {
    fn is_of(self, value: &Json) -> bool {
        match self {
            Form::Array => matches!(value, Json::Array(_)),
            Form::Boolean => matches!(value, Json::Bool(_)),
            Form::Object => matches!(value, Json::Object(_)),
            Form::String => matches!(value, Json::String(_)),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Form::Array => "array",
            Form::Boolean => "boolean",
            Form::Object => "object",
            Form::String => "string",
        }
    }
}

/// Any member of an object.
const ANY: &str = "";

/// The member to go to, and the forms that it may have, in the order in which a reason names them.
type Step = (&'static str, &'static [Form]);

const OBJECT: &[Form] = &[Form::Object];
const STRING: &[Form] = &[Form::String];
const BOOLEAN: &[Form] = &[Form::Boolean];
const STRING_OR_OBJECT: &[Form] = &[Form::String, Form::Object];
const ARRAY_OR_STRING: &[Form] = &[Form::Array, Form::String];

const PATHS: &[&[Step]] = &[
    &[("filters", OBJECT), (ANY, STRING_OR_OBJECT)],
    &[("language", STRING)],
    &[("lists", OBJECT), (ANY, STRING_OR_OBJECT)],
    &[("options", OBJECT)],
    &[("options", OBJECT), ("include_design", BOOLEAN)],
    &[("options", OBJECT), ("local_seq", BOOLEAN)],
    &[("options", OBJECT), ("partitioned", BOOLEAN)],
    &[("rewrites", ARRAY_OR_STRING)],
    &[("shows", OBJECT), (ANY, STRING_OR_OBJECT)],
    &[("updates", OBJECT), (ANY, STRING_OR_OBJECT)],
    &[("validate_doc_update", STRING)],
    &[("views", OBJECT), ("lib", OBJECT)],
];

/// The paths through views, whose map functions are objects in the language `query`.
const MAPS: &[Step] = &[("views", OBJECT), (ANY, OBJECT), ("map", STRING)];
const SELECTORS: &[Step] = &[("views", OBJECT), (ANY, OBJECT), ("map", OBJECT)];
const REDUCES: &[Step] = &[("views", OBJECT), (ANY, OBJECT), ("reduce", STRING)];

/// The language that a design document names, or the default.
pub(super) fn language(document: &Json) -> &str {
    document.member("language").and_then(Json::as_str).unwrap_or("javascript")
}

/// [`Error::InvalidDesignDoc`] if a member of `document` has none of the forms that it may have.
// spec: QUERY-11
pub(super) fn check(document: &Json) -> Result<()> {
    let maps = if language(document) == "query" { SELECTORS } else { MAPS };
    let paths = PATHS.iter().copied().chain([maps, REDUCES]);
    for path in paths {
        if path.first().is_some_and(|(name, _)| *name == "options")
            && mark::planted("options-of-any-form")
        {
            continue;
        }
        check_path(document, path, "")?;
    }
    Ok(())
}

fn check_path(value: &Json, path: &[Step], above: &str) -> Result<()> {
    let (Json::Object(members), Some(((name, forms), below))) = (value, path.split_first()) else {
        return Ok(());
    };
    for (found, value) in members.iter().filter(|(found, _)| *name == ANY || found == name) {
        let place = match above {
            "" => found.clone(),
            above => format!("{above}.{found}"),
        };
        if !forms.iter().any(|form| form.is_of(value)) {
            let names: Vec<&str> = forms.iter().map(|form| form.name()).collect();
            let reason = format!("`{place}` field must have {} type", names.join(" or "));
            return Err(Error::InvalidDesignDoc { reason });
        }
        check_path(value, below, &place)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::view::design::DesignDoc;

    fn refused(document: &str) -> String {
        DesignDoc::parse(&document.parse().unwrap()).unwrap_err().to_string()
    }

    // spec: QUERY-11
    #[test]
    fn a_member_of_the_wrong_form_is_named_with_its_place() {
        for (document, reason) in [
            (r#"{"views":[]}"#, "`views` field must have object type"),
            (r#"{"views":{"v":1}}"#, "`views.v` field must have object type"),
            (r#"{"views":{"v":{}}}"#, "View `v` must contain map function"),
            (r#"{"views":{"v":{"map":null}}}"#, "`views.v.map` field must have string type"),
            (r#"{"views":{"lib":"x"}}"#, "`views.lib` field must have object type"),
            (r#"{"language":null}"#, "`language` field must have string type"),
            (
                r#"{"language":"query","views":{"v":{"map":"f"}}}"#,
                "`views.v.map` field must have object type",
            ),
            (r#"{"options":{"local_seq":1}}"#, "`options.local_seq` field must have boolean type"),
            (r#"{"filters":{"f":1}}"#, "`filters.f` field must have string or object type"),
            (r#"{"rewrites":1}"#, "`rewrites` field must have array or string type"),
            // Of two wrong members the one that CouchDB looks at first.
            (r#"{"views":1,"filters":1}"#, "`filters` field must have object type"),
        ] {
            assert_eq!(refused(document), reason);
        }
        for taken in ["{}", r#"{"views":{}}"#, r#"{"autoupdate":1,"options":{"x":1}}"#] {
            assert!(DesignDoc::parse(&taken.parse().unwrap()).is_ok());
        }
    }
}
