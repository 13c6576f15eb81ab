//! `ci`: the quick form of every campaign, one after the other, in one process.
//!
//! The unit of `passed` is a campaign that reached its floor without a failure.

use super::{CAMPAIGNS, Context};
use crate::figures::Figures;

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let campaigns: Vec<_> = CAMPAIGNS.iter().filter(|campaign| campaign.in_ci).collect();
    let context = Context { quick: true, ..context.clone() };
    let mut all = Figures::new("ci", campaigns.len() as u64);
    for campaign in campaigns {
        if context.stopped() {
            break;
        }
        let began = std::time::Instant::now();
        let figures = (campaign.run)(&context)?;
        context.say(format_args!("{figures} ({} s)", began.elapsed().as_secs()));
        match figures.succeeded() {
            true => all.passed += 1,
            false => all.failed += 1,
        }
        all.count(format!("{} passed", figures.name), figures.passed);
    }
    all.interrupted = context.stopped();
    Ok(all)
}
