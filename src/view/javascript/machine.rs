//! QuickJS with its limits: one runtime, one realm for the driver, one for each function.
//!
//! ```text
//!   runtime ── memory, stack and time limits
//!     ├── realm of the driver      driver.js; parses documents, writes results
//!     ├── realm of function 0      its own globals, so that functions do not meet
//!     └── realm of function 1
//! ```
//!
//! Invariant: a call returns within its time or the time of one builtin more; what ends it is an
//! [`Error::Function`] that says which limit it was.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rquickjs::context::intrinsic;
use rquickjs::function::IntoArgs;
use rquickjs::{Context, Ctx, FromJs, Function, Object, Runtime, Value};

use super::source::with_expressions;
use super::{JavaScript, Limits};
use crate::env::Clock;
use crate::error::{Error, Result};
use crate::mark;
use crate::view::wire;
use crate::vocabulary::Json;

/// What runs around the functions.
const DRIVER: &str = include_str!("driver.js");

/// The driver's name among the globals of its own realm.
const DRIVER_NAME: &str = "rereduceDriver";

/// The function by which the driver hands on what functions log.
const LOG_NAME: &str = "rereduceLog";

/// CouchDB's name for the end of a process that runs functions.
const PROCESS_ERROR: &str = "os_process_error";

/// No call is at work.
const NEVER: u64 = u64::MAX;

/// What CouchDB's engine offers beside the base objects: no promises, proxies or typed arrays.
type Intrinsics = (
    intrinsic::Eval,
    intrinsic::Date,
    intrinsic::Json,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::MapSet,
);

/// When the call at work must end, and whether it was ended.
#[derive(Default)]
struct Alarm {
    /// Milliseconds since the epoch.
    at: AtomicU64,
    is_over: AtomicBool,
}

/// One QuickJS.
pub(super) struct Machine {
    // Realms go before their runtime.
    driver: Context,
    realms: Vec<Context>,
    runtime: Runtime,
    alarm: Arc<Alarm>,
    clock: Arc<dyn Clock>,
    limits: Limits,
}

impl Machine {
    /// A machine without functions.
    // spec: JS-8
    pub(super) fn start(language: &JavaScript) -> Result<Machine> {
        let runtime = Runtime::new().map_err(|_| no_memory())?;
        let limits = language.limits;
        if !mark::planted("js-memory-without-limit") {
            runtime.set_memory_limit(limits.memory_bytes_max);
        }
        runtime.set_max_stack_size(limits.stack_bytes_max);
        let alarm = Arc::new(Alarm { at: AtomicU64::new(NEVER), ..Alarm::default() });
        let (clock, polled) = (Arc::clone(&language.clock), Arc::clone(&alarm));
        runtime.set_interrupt_handler(Some(Box::new(move || {
            let is_over = milliseconds(clock.now()) > polled.at.load(Ordering::Relaxed);
            polled.is_over.fetch_or(is_over, Ordering::Relaxed);
            is_over
        })));
        let driver = Context::custom::<Intrinsics>(&runtime).map_err(|_| no_memory())?;
        let log = language.log.clone();
        let started = driver.with(|ctx| -> rquickjs::Result<()> {
            let log = Function::new(ctx.clone(), move |text: String| log(&text))?;
            ctx.globals().set(LOG_NAME, log)?;
            let driver: Object<'_> = ctx.eval(driver_text().into_owned())?;
            ctx.globals().set(DRIVER_NAME, driver)
        });
        started.map_err(|_| no_memory())?;
        let clock = Arc::clone(&language.clock);
        Ok(Machine { driver, realms: Vec::new(), runtime, alarm, clock, limits })
    }

    /// Compiles `source` in a realm of its own and adds it to the functions that `add` names.
    // spec: JS-1
    pub(super) fn add(&mut self, add: Add<'_>, source: &str) -> Result<()> {
        let realm = match self.realms.first() {
            Some(realm) if mark::planted("js-realms-are-shared") => realm.clone(),
            _ => Context::custom::<Intrinsics>(&self.runtime).map_err(|_| no_memory())?,
        };
        let global = realm.with(|ctx| rquickjs::Persistent::save(&ctx, ctx.globals()));
        self.realms.push(realm);
        let rewritten = with_expressions(source);
        match add {
            Add::Map(library) => {
                let library = library.map(super::text::written);
                self.call::<()>("addMap", (global, source, &*rewritten, library))
            }
            Add::Reduce => self.call::<()>("addReduce", (global, source, &*rewritten)),
            Add::Function(path) => {
                self.call::<()>("addFunction", (global, path, source, &*rewritten))
            }
        }
    }

    /// Calls the driver's function `name`.
    ///
    /// [`Error::Function`] for what it throws, and for a limit that it reaches.
    pub(super) fn call<R>(&self, name: &str, arguments: impl for<'js> IntoArgs<'js>) -> Result<R>
    where
        R: for<'js> FromJs<'js>,
    {
        self.set_alarm();
        let outcome = self.driver.with(|ctx| {
            let called = driver_function(&ctx, name).and_then(|function| function.call(arguments));
            called.map_err(|error| self.failure(&ctx, error))
        });
        self.alarm.at.store(NEVER, Ordering::Relaxed);
        outcome
    }

    fn set_alarm(&self) {
        self.alarm.is_over.store(false, Ordering::Relaxed);
        let at = milliseconds(self.clock.now().saturating_add(self.limits.time_max));
        self.alarm.at.store(at, Ordering::Relaxed);
    }

    /// What ended a call, as an error.
    // spec: JS-8, JS-9
    fn failure(&self, ctx: &Ctx<'_>, error: rquickjs::Error) -> Error {
        if self.alarm.is_over.load(Ordering::Relaxed) {
            mark::hit("js-out-of-time");
            // What was thrown is of no interest.
            let _thrown = ctx.catch();
            let milliseconds = self.limits.time_max.as_millis();
            return process_error(format!("the function runs longer than {milliseconds} ms"));
        }
        if !error.is_exception() {
            return process_error(format!("the function gave no text: {error}"));
        }
        let thrown = ctx.catch();
        self.set_alarm();
        let explained = driver_function(ctx, "explain")
            .and_then(|explain| explain.call::<(Value<'_>,), String>((thrown,)));
        let explained = explained.ok().and_then(|text| wire::read(&text).ok());
        match explained {
            Some(Json::Array(pair)) => match <[Json; 2]>::try_from(pair) {
                Ok([Json::String(name), Json::String(reason)]) => Error::Function { name, reason },
                _ => process_error("the function cannot go on within its limits".to_owned()),
            },
            _ => {
                let _again = ctx.catch();
                process_error("the function cannot go on within its limits".to_owned())
            }
        }
    }
}

/// To which functions a new one is added.
pub(super) enum Add<'a> {
    /// Map functions, which may require what this library holds.
    Map(Option<&'a Json>),
    /// Reduce functions.
    Reduce,
    /// Those at a path of the design document, given as JSON text.
    Function(&'a str),
}

fn driver_function<'js>(ctx: &Ctx<'js>, name: &str) -> rquickjs::Result<Function<'js>> {
    let driver: Object<'js> = ctx.globals().get(DRIVER_NAME)?;
    driver.get(name)
}

/// The driver, or with a bug planted in it.
// spec: JS-4, JS-7, JS-11
fn driver_text() -> Cow<'static, str> {
    let instead = |right: &str, wrong: &str| Cow::Owned(DRIVER.replace(right, wrong));
    if mark::planted("js-document-thaws") {
        instead("seal(doc);", "")
    } else if mark::planted("js-document-is-frozen-outside-only") {
        instead("seal(member);", "")
    } else if mark::planted("js-fatal-is-forgiven") {
        instead("error[0] === 'fatal' : isLimit(error)", "false : isLimit(error)")
    } else if mark::planted("js-rows-before-a-throw-stay") {
        instead("rows = lost;", "")
    } else if mark::planted("js-modules-run-anew") {
        instead("return cache[id];", "return (delete cache[id], load(name, module));")
    } else {
        Cow::Borrowed(DRIVER)
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(NEVER)
}

fn process_error(reason: String) -> Error {
    Error::Function { name: PROCESS_ERROR.to_owned(), reason }
}

fn no_memory() -> Error {
    process_error("JavaScript does not start within its limits".to_owned())
}
