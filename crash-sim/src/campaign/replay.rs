//! `replay`: one violation again, from the command that it was printed with.

use super::{Context, reduce, rot, subject, views};
use crate::explore::Explorer;
use crate::fault::FaultModel;
use crate::figures::Figures;
use crate::target::Workload;

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    if let Some(damage) = context.argument("damage") {
        return rot::replay(context, damage);
    }
    if let Some(case) = context.argument("reduce") {
        return reduce::replay(context, case);
    }
    if let Some(script) = context.argument("views") {
        return views::replay(context, script);
    }
    let needed = |name: &str| {
        context
            .argument(name)
            .ok_or_else(|| format!("replay needs --{name}; copy it from a report"))
    };
    let mut workload = Workload::parse("script", needed("script")?)?;
    for (name, value) in &context.arguments {
        if let ("set", Some((key, value))) = (name.as_str(), value.split_once('=')) {
            workload.settings.push((key.to_owned(), value.to_owned()));
        }
    }
    let model: FaultModel = context.argument("model").unwrap_or("power").parse()?;
    let point = match context.argument("point") {
        Some(point) => Some(point.parse().map_err(|_| format!("--point {point}: no number"))?),
        None => None,
    };
    let crash = point.zip(context.argument("choice").or(Some("keep=none")));
    let subject = subject(needed("target")?)?;
    let plan = context.argument("plan").unwrap_or_default().parse()?;
    let explorer = Explorer { plan, ..context.explorer(model) };
    let mut figures = Figures::new("replay", 1);
    figures.count("workload", 1);
    let violation = match (context.argument("inner"), crash) {
        (Some(inner), Some(first)) => {
            let mut chain = vec![first];
            for part in inner.split(';').map(str::trim).filter(|part| !part.is_empty()) {
                let (point, choice) = part.split_once(' ').unwrap_or((part, "keep=none"));
                let point = point.parse().map_err(|_| format!("--inner {part:?}: no number"))?;
                chain.push((point, choice));
            }
            subject.nest_again(&explorer, &workload, &chain)?.map(|it| it.to_string())
        }
        _ => subject.replay(&explorer, &workload, crash)?.map(|it| it.to_string()),
    };
    match violation {
        Some(violation) => {
            context.say(format_args!("{violation}\n"));
            figures.failed = 1;
        }
        None => figures.passed = 1,
    }
    Ok(figures)
}
