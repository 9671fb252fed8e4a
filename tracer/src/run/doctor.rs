//! `srctrace doctor`: what can be observed on this machine.

use super::clock;
use super::failure::Failure;
use super::gateways;
use super::print;
use crate::cli::DoctorOutput;
use crate::kernel::features;
use crate::render::{self, Look};
use crate::sink;
use crate::system::{capabilities, conntrack, host};
use tracer_core::expect::ExitStatus;
use tracer_core::report::{Capability, Events, Flows, Line, ObservedBy, SCHEMA, Summary};

pub(super) fn doctor(output: DoctorOutput) -> Result<ExitStatus, Failure> {
    let capabilities: Vec<Capability> = features::capabilities()
        .into_iter()
        .chain([conntrack()])
        .chain(privileges())
        .chain(gateways::gateways())
        .collect();
    match output {
        DoctorOutput::Text => {
            let look = Look {
                colour: sink::stdout_colour(),
                names: true,
                verbose: 0,
                width: sink::stdout_width(),
            };
            print(&render::doctor(&capabilities, look))
        }
        DoctorOutput::Json => {
            for capability in capabilities {
                let line = render::json_line(&Line::Capability(capability))
                    .map_err(|e| Failure::Output(e.to_string()))?;
                print(&line)?;
            }
            let line = render::json_line(&Line::Summary(Box::new(summary())))
                .map_err(|e| Failure::Output(e.to_string()))?;
            print(&line)
        }
    }
}

/// The last line of commands that trace nothing.
pub(super) fn summary() -> Summary {
    Summary {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: host::kernel_release(),
        host: host::hostname(),
        started: clock::utc_now(),
        duration_s: 0.0,
        observed_by: ObservedBy::default(),
        flows: Flows::default(),
        events: Events::default(),
        groups: Vec::new(),
        points: Vec::new(),
        expect: Vec::new(),
    }
}

fn conntrack() -> Capability {
    let askable = conntrack::askable();
    Capability {
        what: "conntrack over netlink".to_owned(),
        available: askable.is_ok(),
        why: askable.map_or_else(|why| why, |()| "can be asked".to_owned()),
        effect: "tells that netfilter made a rewrite, where kernel memory may not be read"
            .to_owned(),
    }
}

fn privileges() -> Vec<Capability> {
    let missing = capabilities::missing();
    if missing.is_empty() {
        return vec![Capability {
            what: "privileges".to_owned(),
            available: true,
            why: "every capability that srctrace uses is held".to_owned(),
            effect: "attaching, entering namespaces, reading processes".to_owned(),
        }];
    }
    let line = |m: capabilities::Missing| Capability {
        what: m.name,
        available: false,
        why: "this process does not hold it".to_owned(),
        effect: m.effect.to_owned(),
    };
    missing.into_iter().map(line).collect()
}
