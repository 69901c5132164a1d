//! Which runs a command line asks for.

use anyhow::{Result, bail};

use crate::cli::Args;
use crate::faults::{self, Make, Scale};
use crate::run::Plan;

/// Payments of a run.
const USUAL: usize = 200;

/// Payments of a run in the short form.
const SHORT: usize = 100;

/// The runs, in the order in which they begin.
///
/// # Errors
///
/// When a fault is not known, or does not apply to the databases.
pub fn plans(args: &Args) -> Result<Vec<Plan>> {
    let scale = match args.short {
        true => Scale::Short,
        false => Scale::Usual,
    };
    let chosen = chosen(&args.faults)?;
    let mut plans = Vec::new();
    for make in chosen {
        let fault = make(scale);
        for database in args.database.kinds() {
            if !fault.applies_to(*database) {
                continue;
            }
            let (runs, usual) = match (args.short, args.long) {
                (true, _) => (1, SHORT),
                (_, true) => (fault.long_runs(), USUAL),
                _ => (args.runs, USUAL),
            };
            let payments = args.payments.or(fault.payments()).unwrap_or(usual);
            plans.extend((0..runs).map(|run| Plan {
                fault: make,
                scale,
                database: *database,
                seed: args.seed + run,
                payments,
            }));
        }
    }
    if plans.is_empty() {
        bail!("none of these faults applies to this database");
    }
    Ok(plans)
}

fn chosen(names: &[String]) -> Result<Vec<Make>> {
    let all = faults::all();
    if names.is_empty() {
        return Ok(all);
    }
    let unknown = names.iter().find(|name| {
        all.iter()
            .all(|make| make(Scale::Usual).name() != name.as_str())
    });
    if let Some(unknown) = unknown {
        bail!("there is no fault {unknown}; see --list");
    }
    let wanted = |make: &Make| names.iter().any(|name| make(Scale::Usual).name() == name);
    Ok(all.into_iter().filter(wanted).collect())
}
