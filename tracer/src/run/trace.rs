//! `srctrace DEST`: arm, look, tell, sum up.

use super::agreed;
use super::clock;
use super::entries::Entries;
use super::failure::Failure;
use super::gone::Gone;
use super::library::RuleReader;
use super::live::Live;
use super::node;
use super::pcap::Pcap;
use super::plan::{self, Plan};
use super::probe;
use super::record::Recorder;
use super::rules::Rules;
use super::signals::Signals;
use super::stores::{Modules, stores};
use super::taps::Taps;
use super::tell::Teller;
use crate::cli::{OutputOptions, RuleMode, TapMode, TraceOptions};
use crate::kernel::{self, DropWords, KernelTypes, Programs, Reader, Ring, Sizes, features};
use crate::render::Look;
use crate::render::text::{self, Armed};
use crate::sink;
use crate::system::{Survey, SystemError, Watch, capabilities, host, symbols};
use std::collections::BTreeMap;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Instant;
use tokio::runtime::Runtime;
use tracer_core::expect::ExitStatus;
use tracer_core::journey::Settings;
use tracer_core::point::Point;
use tracer_core::report::Unavailable;
use tracer_core::trace::{Trace, Wanted};

/// Runs a trace to its end.
pub(super) fn trace(options: &TraceOptions) -> Result<ExitStatus, Failure> {
    let start = Instant::now();
    let agreed = agreed::of(options)?;
    let options = agreed.as_ref().unwrap_or(options);
    let plan = Plan::new(options)?;
    for note in &plan.resolved.notes {
        sink::note(&format!("srctrace: {}\n", crate::render::escape(note)));
    }
    runtime()?.block_on(run(options, &plan, start))
}

/// Checks that it can be traced here, and makes what traces run in.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    if let Some(line) = capabilities::error(&capabilities::missing()) {
        return Err(Failure::CannotTrace(line));
    }
    host::lift_memlock();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::CannotTrace(format!("cannot start the event loop: {e}")))
}

async fn run(options: &TraceOptions, plan: &Plan, start: Instant) -> Result<ExitStatus, Failure> {
    let mut signals = Signals::listen()?;
    let ready = |survey: &Survey| probe::prepare(options, plan, survey);
    let (mut live, probes) = arm(options, plan, Teller::new, ready)?;
    announce(options, &live, start);
    if !options.sends() {
        let look = look(&options.output);
        sink::note(&text::waiting(&options.filter.describe(), look));
    }
    signal_ready();
    live.run(options, probes, &mut signals).await
}

/// A trace that sees packets from now on, and what `ready` made before it was armed. To be called in a [`runtime`].
pub(super) fn arm<'a, T>(
    options: &TraceOptions,
    plan: &'a Plan,
    teller: fn(&OutputOptions, &str) -> Teller,
    ready: impl FnOnce(&Survey) -> Result<T, Failure>,
) -> Result<(Live<'a>, T), Failure> {
    let begin = Instant::now();
    let modules = Modules::watch(plan.roots.clone());
    let watch = Watch::start(&plan.roots, &plan.node)?;
    let (loaded, survey) = loaded_and_surveyed(options, plan);
    let too_old = || host::too_old(&host::kernel_release());
    let (sight, mut programs, ring) = loaded.map_err(|failure| failure.because(too_old()))?;
    let survey = named(survey?, options);
    let wanted = plan::wanted(&plan.roots, &survey, options)?;
    let points = plan::points(plan, &survey, &options.points)?;
    let made = ready(&survey)?;
    let recorder = options.record.as_ref().map(Recorder::create).transpose()?;
    let clocks = clock::now();
    let pcap = pcap(options, &points, clocks.offset_ns())?;
    let mut trace = fresh(options, clocks.offset_ns(), &wanted);
    trace.name_points(points.clone(), &survey.inventory().host);
    let doubt = node::doubt(options, plan, &survey);
    doubt.iter().for_each(|u| trace.unavailable(u.clone()));
    let mut reasons = BTreeMap::new();
    let by_memory = matches!(sight, Sight::Memory(_));
    let taps = match sight {
        Sight::Memory(types) => {
            reasons = types.drop_reasons;
            let unavailable = types.unavailable;
            programs.attach_tracepoints()?;
            let without = capabilities::missing();
            let missing = capabilities::unavailable(&without);
            let lacks = unavailable
                .into_iter()
                .chain(missing)
                .chain(doubt)
                .collect();
            let taps = Taps::new(options.tap, &wanted, &mut programs, lacks)?;
            let taps = taps.before(plan.hosts(), &mut programs, &survey);
            (taps, Entries::of_bypassing())
        }
        Sight::Direct(why) => direct(options.tap, why, doubt, &mut programs, &survey, &mut trace)?,
    };
    let teller = teller(&options.output, &survey.inventory().host);
    let library = RuleReader::start(plan.roots.clone(), begin.elapsed())
        .map_err(|e| Failure::CannotTrace(format!("cannot start a thread to read rules: {e}")))?;
    let rules = observers(options, plan, by_memory.then_some(modules))?;
    let mut functions = symbols::Functions::new(plan.roots.clone());
    let words = DropWords::new(reasons, move |address| functions.at(address));
    let seers = (taps.0, taps.1, rules, library);
    let mut live = Live::new(
        plan, survey, watch, programs, ring, trace, seers, teller, words,
    );
    live.pcap = pcap;
    live.gone = Gone::new(&points);
    live.record_to(recorder, options, plan, (wanted, points, clocks))?;
    host::take_precedence();
    host::return_memory();
    Ok((live, made))
}

/// A trace that has seen nothing yet.
fn fresh(options: &TraceOptions, offset_ns: i64, wanted: &Wanted) -> Trace {
    let mut trace = Trace::new(Settings::default(), offset_ns);
    if options.record.is_some() {
        trace.keep_journal();
    }
    trace.want(wanted.clone());
    trace.check(options.check.checks());
    trace
}

/// The file for the packets, where one is asked for.
fn pcap(options: &TraceOptions, points: &[Point], offset_ns: i64) -> Result<Option<Pcap>, Failure> {
    let Some(path) = &options.pcap else {
        return Ok(None);
    };
    Pcap::create(path, &host::kernel_release(), offset_ns, points).map(Some)
}

/// What shows rules at work; modules that are loaded later are waited for where there are probes to
/// be put into them.
fn observers(
    options: &TraceOptions,
    plan: &Plan,
    modules: Option<Modules>,
) -> Result<Rules, Failure> {
    let mut rules = Rules::start(options, plan)?;
    if let Some(modules) = modules.filter(|_| features::kprobes().is_ok()) {
        rules.await_modules(options, modules);
    }
    Ok(rules)
}

/// Calls the machine as the options do.
fn named(mut survey: Survey, options: &TraceOptions) -> Survey {
    if let Some(name) = &options.host {
        survey.name_host(name);
    }
    survey
}

/// How packets are seen.
enum Sight {
    /// By reading the kernel's memory, with what its types tell.
    Memory(Box<KernelTypes>),
    /// By what traffic-control programs are shown, and why only so.
    Direct(String),
}

/// Offsets, then programs. A kernel that refuses to let its memory be read needs no offsets.
/// The verifier and the look at the namespaces take about the same time: side by side.
fn loaded_and_surveyed(
    options: &TraceOptions,
    plan: &Plan,
) -> (Loaded, Result<Survey, SystemError>) {
    let (loaded, survey) = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(plan, options.observe_rules));
        let survey = Survey::take(&plan.roots, &plan.node, plan.scope.clone());
        (loading.join(), survey)
    });
    let loaded = loaded.unwrap_or_else(|p| std::panic::resume_unwind(p));
    (loaded, survey)
}

type Loaded = Result<(Sight, Programs, Ring), Failure>;

fn load(plan: &Plan, rules: RuleMode) -> Loaded {
    if let Err(why) = memory() {
        let (programs, ring) = Programs::load(&plan.filter, Reader::Direct, sizes())?;
        return Ok((Sight::Direct(why), programs, ring));
    }
    let types = kernel::read_types()?;
    let reader = Reader::Memory(&types);
    let (mut programs, ring) = Programs::load(&plan.filter, reader, sizes())?;
    if matches!(rules, RuleMode::Auto | RuleMode::Full) {
        let stores = stores(&plan.roots, &types);
        programs.observe_rules(&stores, rules == RuleMode::Full);
    }
    Ok((Sight::Memory(Box::new(types)), programs, ring))
}

/// Whether the kernel's memory may be read. `SRCTRACE_ASSUME_LOCKDOWN` says that it may not.
fn memory() -> Result<(), String> {
    if std::env::var_os("SRCTRACE_ASSUME_LOCKDOWN").is_some() {
        return Err("SRCTRACE_ASSUME_LOCKDOWN is set".to_owned());
    }
    features::memory().map(drop)
}

/// Traffic-control taps on every device, and conntrack by netlink; every flow says so.
fn direct(
    mode: TapMode,
    why: String,
    doubt: Option<Unavailable>,
    programs: &mut Programs,
    survey: &Survey,
    trace: &mut Trace,
) -> Result<(Taps, Entries), Failure> {
    let memory = Unavailable {
        what: "kernel memory".to_owned(),
        why,
        effect: "packets are seen by traffic-control programs only: not on the \
                 loopback of pods, and \
                 not what later programs on a device do to them; conntrack entries are asked \
                 for, and senders' processes are not known"
            .to_owned(),
    };
    let (entries, lacking) = Entries::of_all();
    let lacks: Vec<_> = [memory].into_iter().chain(lacking).collect();
    lacks.iter().for_each(|u| trace.unavailable(u.clone()));
    let lacks = lacks.into_iter().chain(doubt).collect();
    let taps = Taps::alone(mode, survey, programs, lacks)?;
    Ok((taps, entries))
}

/// `SRCTRACE_RING_KIB` makes the ring smaller, to see what happens when it is full.
fn sizes() -> Sizes {
    let asked = std::env::var("SRCTRACE_RING_KIB")
        .ok()
        .and_then(|text| text.parse::<u32>().ok());
    let ring = |kib: u32| (kib.clamp(4, kernel::RING_BYTES >> 10) << 10).next_power_of_two();
    Sizes {
        ring_bytes: asked.map_or(kernel::RING_BYTES, ring),
        ..Sizes::TRACE
    }
}

/// Says on stderr that packets are seen from now on.
pub(super) fn announce(options: &TraceOptions, live: &Live<'_>, start: Instant) {
    let inventory = live.inventory();
    let links = inventory
        .namespaces
        .values()
        .map(|ns| ns.links.len() as u64);
    let armed = Armed {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: live.host().to_owned(),
        kernel: host::kernel_release(),
        started: live.started().to_owned(),
        took_s: start.elapsed().as_secs_f64(),
        interfaces: links.sum(),
        namespaces: inventory.namespaces.len() as u64,
    };
    sink::note(&text::header(&armed, look(&options.output)));
}

fn look(output: &OutputOptions) -> Look {
    Look {
        colour: sink::stderr_colour(),
        names: output.names,
        verbose: output.verbose,
        width: sink::stderr_width(),
    }
}

/// Says on `SRCTRACE_READY_FD` that packets are seen from now on. Once: it closes that.
pub(super) fn signal_ready() {
    let fd = std::env::var("SRCTRACE_READY_FD")
        .ok()
        .and_then(|text| text.parse::<i32>().ok());
    if let Some(fd) = fd.filter(|fd| *fd > 2) {
        // SAFETY: whoever started us passed this descriptor for us to use and close.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let _ = rustix::io::write(&fd, b"armed\n");
    }
}
