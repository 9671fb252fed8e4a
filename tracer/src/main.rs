//! The `srctrace` binary.
use srctrace::kernel;
fn main() -> anyhow::Result<()> {
    let types = kernel::read_types()?;
    println!("{:?}", types.offsets);
    let filter = kernel::Filter {
        dests: vec![("0.0.0.0/0".parse()?, vec![])],
        ..Default::default()
    };
    let (mut programs, mut ring) = kernel::Programs::load(&filter, &types.offsets, 4 << 20)
        .map_err(|e| {
            let mut s: &dyn std::error::Error = &e;
            while let Some(n) = s.source() {
                eprintln!("{n}");
                s = n;
            }
            e
        })?;
    programs.load_tc(kernel::TcMode::Tcx).map_err(|e| {
        let mut s: &dyn std::error::Error = &e;
        while let Some(n) = s.source() {
            eprintln!("{n}");
            s = n;
        }
        e
    })?;
    programs.attach_tracepoints()?;
    println!("armed {:?}", programs.attached());
    let until = std::time::Instant::now()
        + std::time::Duration::from_secs(
            std::env::args()
                .nth(1)
                .and_then(|s| s.parse().ok())
                .unwrap_or(3),
        );
    while std::time::Instant::now() < until {
        ring.drain(1000, |bytes| match tracer_core::event::decode(bytes) {
            Ok(e) => println!("{e:?}"),
            Err(e) => println!("{e}"),
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    println!("{:?}", programs.counters()?);
    Ok(())
}
