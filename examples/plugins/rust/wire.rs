//! Readers and writers of JSON values, which the types of the schema are made of.

use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;
use std::fmt;

/// What a reader returns: what it has read, or the first place that the schema does not allow.
pub type Outcome<T> = Result<T, Wrong>;

/// Says where a value is not as the schema has it, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Wrong {
    /// The place below the value, such as `.content[0].text`.
    pub at: String,
    pub why: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", if self.at.is_empty() { "the value" } else { &self.at }, self.why)
    }
}

impl std::error::Error for Wrong {}

impl Wrong {
    fn new(why: impl Into<String>) -> Self {
        Self { at: String::new(), why: why.into() }
    }

    fn below(mut self, place: &str) -> Self {
        self.at.insert_str(0, place);
        self
    }
}

/// A message: who sends it, and the types of its params and of its result; a text is empty if there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Method {
    pub method: &'static str,
    pub kind: &'static str,
    pub direction: &'static str,
    pub params: &'static str,
    pub result: &'static str,
    pub capability: &'static str,
}

/// A type of the schema.
pub trait Read: Write + Sized {
    /// Read a JSON value, strictly as the schema has it.
    fn read(value: &Value) -> Outcome<Self>;

    /// Read a JSON text.
    fn parse(text: &str) -> Outcome<Self> {
        let value = serde_json::from_str(text).map_err(|error| Wrong::new(format!("is not JSON: {error}")))?;
        Self::read(&value)
    }

    /// Return the JSON text.
    fn json(&self) -> String {
        self.write().to_string()
    }
}

/// What a JSON value can be made of.
pub trait Write {
    fn write(&self) -> Value;
}

macro_rules! cloned {
    ($($kind:ty),*) => {
        $(impl Write for $kind {
            fn write(&self) -> Value {
                Value::from(self.clone())
            }
        })*
    };
}
cloned!(bool, String, Number, Value);

impl Write for () {
    fn write(&self) -> Value {
        Value::Null
    }
}

impl<T: Write> Write for Box<T> {
    fn write(&self) -> Value {
        (**self).write()
    }
}

impl<T: Write> Write for Vec<T> {
    fn write(&self) -> Value {
        self.iter().map(Write::write).collect()
    }
}

impl<T: Write> Write for BTreeMap<String, T> {
    fn write(&self) -> Value {
        self.iter().map(|(name, item)| (name.clone(), item.write())).collect()
    }
}

/// The members of an object, while it is read.
pub struct Members<'a> {
    all: &'a Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'a> Members<'a> {
    pub fn of(value: &'a Value) -> Outcome<Self> {
        let all = value.as_object().ok_or_else(|| not_of("an object", value))?;
        Ok(Self { all, known: Vec::new() })
    }

    pub fn required<T>(&mut self, name: &'static str, read: impl Fn(&Value) -> Outcome<T>) -> Outcome<T> {
        self.optional(name, read)?.ok_or_else(|| Wrong::new("is missing").below(&format!(".{name}")))
    }

    pub fn optional<T>(&mut self, name: &'static str, read: impl Fn(&Value) -> Outcome<T>) -> Outcome<Option<T>> {
        self.known.push(name);
        let found = self.all.get(name).map(read).transpose();
        found.map_err(|wrong| wrong.below(&format!(".{name}")))
    }

    /// Return the members that the schema does not have.
    pub fn extra(&self) -> Map<String, Value> {
        let others = self.all.iter().filter(|(name, _)| !self.known.contains(&name.as_str()));
        others.map(|(name, item)| (name.clone(), item.clone())).collect()
    }

    /// Refuse members that the schema does not have.
    pub fn closed(&self) -> Outcome<()> {
        match self.extra().keys().next() {
            Some(name) => Err(Wrong::new(format!("the schema has no property {name}"))),
            None => Ok(()),
        }
    }
}

/// Add a member to an object that is written.
pub fn put(members: &mut Map<String, Value>, name: &str, value: &impl Write) {
    members.insert(name.to_string(), value.write());
}

/// Add a member if there is one.
pub fn put_optional(members: &mut Map<String, Value>, name: &str, value: &Option<impl Write>) {
    if let Some(value) = value {
        put(members, name, value);
    }
}

/// Return the error of a value that is something else.
pub fn not_of(kind: &str, value: &Value) -> Wrong {
    Wrong::new(format!("{value} is not {kind}"))
}

pub fn any(value: &Value) -> Outcome<Value> {
    Ok(value.clone())
}

pub fn null(value: &Value) -> Outcome<()> {
    value.as_null().ok_or_else(|| not_of("null", value))
}

pub fn boolean(value: &Value) -> Outcome<bool> {
    value.as_bool().ok_or_else(|| not_of("a boolean", value))
}

pub fn string(value: &Value) -> Outcome<String> {
    value.as_str().map(String::from).ok_or_else(|| not_of("a string", value))
}

pub fn number(value: &Value) -> Outcome<Number> {
    value.as_number().cloned().ok_or_else(|| not_of("a number", value))
}

/// Read a number without a fraction, such as `5`, `5.0` or `5e3`.
pub fn integer(value: &Value) -> Outcome<Number> {
    let number = number(value).map_err(|_| not_of("an integer", value))?;
    if is_whole(&number.to_string()) { Ok(number) } else { Err(not_of("an integer", value)) }
}

fn is_whole(number: &str) -> bool {
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let significant = format!("{whole}{fraction}");
    let zeros = significant.len() - significant.trim_end_matches('0').len();
    let is_zero = significant.trim_start_matches('-').trim_matches('0').is_empty();
    match exponent.parse::<i32>() {
        Ok(exponent) => is_zero || i64::from(exponent) + zeros as i64 >= fraction.len() as i64,
        Err(_) => is_zero || !exponent.starts_with('-'), // An exponent beyond 32 bits.
    }
}

pub fn list<T>(read: impl Fn(&Value) -> Outcome<T>) -> impl Fn(&Value) -> Outcome<Vec<T>> {
    move |value| {
        let items = value.as_array().ok_or_else(|| not_of("an array", value))?;
        let item = |(index, item)| read(item).map_err(|wrong: Wrong| wrong.below(&format!("[{index}]")));
        items.iter().enumerate().map(item).collect()
    }
}

pub fn map<T>(read: impl Fn(&Value) -> Outcome<T>) -> impl Fn(&Value) -> Outcome<BTreeMap<String, T>> {
    move |value| {
        let members = value.as_object().ok_or_else(|| not_of("an object", value))?;
        let member = |(name, item): (&String, &Value)| match read(item) {
            Ok(item) => Ok((name.clone(), item)),
            Err(wrong) => Err(wrong.below(&format!(".{name}"))),
        };
        members.iter().map(member).collect()
    }
}

/// Read one of the values that a JSON text lists.
pub fn value_of(allowed: &'static str) -> impl Fn(&Value) -> Outcome<Value> {
    move |value| {
        let is_it = |one: &Value| match (one, value) {
            (Value::Number(one), Value::Number(given)) => one.as_f64() == given.as_f64(),
            _ => one == value,
        };
        let found = constant(allowed).as_array().is_some_and(|values| values.iter().any(is_it));
        if found { Ok(value.clone()) } else { Err(not_of(&format!("one of {allowed}"), value)) }
    }
}

/// Read one of the texts that a JSON text lists.
pub fn text_of(allowed: &'static str) -> impl Fn(&Value) -> Outcome<String> {
    move |value| string(&value_of(allowed)(value)?)
}

/// Return the value of a JSON text of this package.
pub fn constant(text: &str) -> Value {
    serde_json::from_str(text).expect("the generator writes JSON")
}

/// Read a value that has bounds: those of a number, or of the length of a text or a list.
pub fn within<T>(least: f64, most: f64, read: impl Fn(&Value) -> Outcome<T>) -> impl Fn(&Value) -> Outcome<T> {
    move |value| {
        let measure = match value {
            Value::String(text) => text.chars().count() as f64,
            Value::Array(items) => items.len() as f64,
            other => other.as_f64().unwrap_or(f64::NAN),
        };
        let read = read(value)?;
        if (least..=most).contains(&measure) { Ok(read) } else { Err(not_of(&format!("{least} to {most}"), value)) }
    }
}

/// Read a union: what the first arm reads. Where `tag` tells the arms apart, the error is that of the arm of this tag.
pub fn arm<T>(value: &Value, tag: &str, arms: &[&dyn Fn(&Value) -> Outcome<T>]) -> Outcome<T> {
    let mut told = Vec::new();
    for read in arms {
        match read(value) {
            Ok(read) => return Ok(read),
            Err(wrong) if !tag.is_empty() && wrong.at != tag => told.push(wrong),
            Err(_) => {}
        }
    }
    match told.pop() {
        Some(wrong) if told.is_empty() => Err(wrong),
        _ => Err(not_of("of an arm of the union", value)),
    }
}

/// Read a union that has no name as the JSON value that it is.
pub fn either<'a>(arms: &'a [&'a dyn Fn(&Value) -> bool]) -> impl Fn(&Value) -> Outcome<Value> + 'a {
    move |value| match arms.iter().any(|fits| fits(value)) {
        true => Ok(value.clone()),
        false => Err(not_of("of an arm of the union", value)),
    }
}

/// Say if a reader reads a value.
pub fn fits<T>(read: impl Fn(&Value) -> Outcome<T>) -> impl Fn(&Value) -> bool {
    move |value| read(value).is_ok()
}
