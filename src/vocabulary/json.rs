//! JSON as plain data: what a document's body and a view's keys and values are made of.
//!
//! Invariant: two values are equal exactly if CouchDB would give them the same revision id. So the
//! order of members counts, `1` and `1.0` differ, and so do `0.0` and `-0.0`. A whole number is an
//! [`Number::Integer`] if it fits into 64 bits and a [`Number::Big`] otherwise, never both.

/// A JSON value.
///
/// Text is read and written by [`crate::doc`]; nesting as deep as that module allows is safe to
/// clone, compare and drop.
///
/// ```
/// use rereduce::vocabulary::{Json, Number};
/// let body = Json::Object(vec![("a".into(), Json::from(1)), ("b".into(), Json::Null)]);
/// assert_eq!(body.member("a"), Some(&Json::Number(Number::Integer(1))));
/// assert_eq!(body.member("c"), None);
/// assert_ne!(Json::from(0.0), Json::from(-0.0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, which remembers whether it was written as a whole one.
    Number(Number),
    /// A string; any Unicode scalar values, U+0000 too.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object: its members in the order in which they stand, no name twice.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The value of the member called `name`, if this is an object that has one.
    ///
    /// Looks at members one by one, the last first.
    pub fn member(&self, name: &str) -> Option<&Json> {
        let Json::Object(members) = self else { return None };
        members.iter().rev().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    /// A whole number that is not negative, at any size.
    ///
    /// ```
    /// use rereduce::vocabulary::Json;
    /// assert_eq!(Json::unsigned(1), Json::from(1));
    /// assert_eq!(Json::unsigned(u64::MAX).to_string(), "18446744073709551615");
    /// ```
    pub fn unsigned(number: u64) -> Json {
        Json::Number(match i64::try_from(number) {
            Ok(number) => Number::Integer(number),
            Err(_) => Number::Big(BigInteger(number.to_string().into())),
        })
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }
}

impl From<i64> for Json {
    fn from(number: i64) -> Json {
        Json::Number(Number::Integer(number))
    }
}

impl From<f64> for Json {
    fn from(number: f64) -> Json {
        Json::Number(Number::Float(number))
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::String(text.into())
    }
}

/// A JSON number: whole at any size, or a double with its sign.
///
/// ```
/// use rereduce::vocabulary::Number;
/// assert_ne!(Number::Integer(1), Number::Float(1.0));
/// assert_ne!(Number::Float(0.0), Number::Float(-0.0));
/// ```
#[derive(Clone, Debug)]
pub enum Number {
    /// A whole number that fits into 64 bits.
    Integer(i64),
    /// A whole number that does not.
    Big(BigInteger),
    /// A number that was written with a point or an exponent; finite.
    Float(f64),
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        match (self, other) {
            (Number::Integer(one), Number::Integer(two)) => one == two,
            (Number::Big(one), Number::Big(two)) => one == two,
            // Bits, because the two zeros are two values here.
            (Number::Float(one), Number::Float(two)) => one.to_bits() == two.to_bits(),
            _ => false,
        }
    }
}

impl Eq for Number {}

/// A whole number beyond 64 bits, kept as its decimal digits.
///
/// ```
/// use rereduce::vocabulary::BigInteger;
/// assert_eq!(BigInteger::new("18446744073709551616").unwrap().digits(), "18446744073709551616");
/// assert!(BigInteger::new("9223372036854775807").is_none(), "this fits into 64 bits");
/// assert!(BigInteger::new("018446744073709551616").is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BigInteger(Box<str>);

impl BigInteger {
    /// The number with these digits, behind a `-` if it is negative. `None` for anything that is
    /// not the one way to write such a number: a leading zero, or a value that fits into an `i64`.
    pub fn new(digits: &str) -> Option<BigInteger> {
        let magnitude = digits.strip_prefix('-').unwrap_or(digits);
        let whole = magnitude.bytes().all(|byte| byte.is_ascii_digit());
        let big = magnitude.len() >= 19 && digits.parse::<i64>().is_err();
        (whole && big && !magnitude.starts_with('0')).then(|| BigInteger(digits.into()))
    }

    /// The decimal digits, behind a `-` if the number is negative.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// Whether the number is below zero.
    pub fn is_negative(&self) -> bool {
        self.0.starts_with('-')
    }
}
