//! `campaign --protocol smb|afs|both --seconds N --seed S --corpus DIR --jobs N`: docs/benchmarks.md.

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use campaign::case::{self, Bounds, Protocol};
use campaign::{corpus, log};
use rand::SeedableRng;
use rand::rngs::SmallRng;

#[global_allocator]
static ALLOCATOR: lane::memory::Counting = lane::memory::Counting;

#[derive(Clone)]
struct Options {
    protocols: Vec<Protocol>,
    seconds: u64,
    seed: u64,
    corpus: PathBuf,
    findings: PathBuf,
    jobs: u64,
    is_json: bool,
    replay: Option<PathBuf>,
    hex: Option<Vec<u8>>,
    minimise: Option<usize>,
    shrink: Option<PathBuf>,
    keeps_going: bool,
}

/// The case that runs, and since when: for the thread that waits for its end.
static RUNNING: Mutex<Option<(Instant, Protocol, Vec<u8>)>> = Mutex::new(None);

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("campaign: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    log::listen();
    if options.jobs > 1 {
        return several(&options);
    }
    if options.replay.is_none() && options.hex.is_none() || options.shrink.is_some() {
        case::keep_panics();
    }
    let findings = options.findings.clone();
    std::thread::spawn(move || watch(&findings));
    let mut is_good = true;
    for &protocol in &options.protocols {
        if let Some(path) = &options.shrink {
            shrink(protocol, path);
            continue;
        }
        is_good &= match (&options.replay, &options.hex, options.minimise) {
            (Some(path), _, _) => replay(protocol, &std::fs::read(path).expect("the file of a case")),
            (_, Some(input), _) => replay(protocol, input),
            (_, _, Some(bytes_max)) => minimise(protocol, &options, bytes_max),
            _ => run(protocol, &options),
        };
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn directory(options: &Options, protocol: Protocol) -> PathBuf {
    options.corpus.join(protocol.name())
}

/// Runs cases until the time is over.
fn run(protocol: Protocol, options: &Options) -> bool {
    let directory = directory(options, protocol);
    let mut kept: Vec<Vec<u8>> = corpus::load(&directory).expect("the corpus").into_values().collect();
    let mut rng = SmallRng::seed_from_u64(options.seed);
    let (mut seen, mut total, mut known) = (HashSet::new(), Total::default(), HashSet::new());
    let first = kept.len();
    let began = Instant::now();
    let mut told = began;
    let mut at = 0;
    while began.elapsed() < Duration::from_secs(options.seconds) {
        let input = if at < first { kept[at].clone() } else { corpus::mutate(&kept, &mut rng) };
        let is_first = at == 0;
        at += 1;
        let found = watched(protocol, &input);
        total.add(&found);
        let is_new = at > first && found.signs.iter().any(|sign| !seen.contains(sign));
        total.signs += found.signs.iter().filter(|sign| at > first && !seen.contains(*sign)).count() as u64;
        seen.extend(&found.signs);
        if is_new && found.findings.is_empty() {
            corpus::save(&directory, &input).expect("the corpus");
            kept.push(input.clone());
        }
        for finding in found.findings {
            // The first case makes what a process makes once.
            if is_first && finding.starts_with("leak") {
                continue;
            }
            total.findings += 1;
            let kind = kind_of(&finding);
            if known.insert(kind) {
                let path = corpus::save(&options.findings, &input).expect("a place for findings");
                println!("finding: {finding}");
                println!("  repeat: campaign --protocol {} --replay {}", protocol.name(), path.display());
                if !options.keeps_going {
                    total.tell(protocol, options, &seen, kept.len());
                    return false;
                }
            }
        }
        if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            total.tell(protocol, options, &seen, kept.len());
        }
    }
    total.tell(protocol, options, &seen, kept.len());
    total.findings == 0
}

/// Returns what a finding is about, without its figures: each kind is reported once.
fn kind_of(finding: &str) -> String {
    if finding.starts_with("panic") {
        return finding.to_owned();
    }
    finding.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[derive(Default)]
struct Total {
    cases: u64,
    messages: u64,
    signs: u64,
    findings: u64,
    longest_turn: Duration,
    heap_most: isize,
    heap_at_rest: isize,
}

impl Total {
    fn add(&mut self, seen: &campaign::notes::Seen) {
        self.cases += 1;
        self.messages += seen.messages;
        self.longest_turn = self.longest_turn.max(seen.longest_turn);
        self.heap_most = self.heap_most.max(seen.heap_most);
        self.heap_at_rest = self.heap_at_rest.max(seen.heap_at_rest);
    }

    fn tell(&self, protocol: Protocol, options: &Options, seen: &HashSet<u64>, kept: usize) {
        let cpu = cpu_seconds();
        let Self { cases, messages, signs, findings, .. } = self;
        let turn = self.longest_turn.as_micros();
        let (most, rest) = (self.heap_most >> 10, self.heap_at_rest >> 10);
        let (protocol, seed, all) = (protocol.name(), options.seed, seen.len());
        if options.is_json {
            println!(
                "{{\"protocol\":\"{protocol}\",\"seed\":{seed},\"cases\":{cases},\"messages\":{messages},\"cpu_seconds\":{cpu:.1},\
                 \"signs\":{all},\"new_signs\":{signs},\"corpus\":{kept},\"findings\":{findings},\"longest_turn_us\":{turn},\
                 \"heap_most_kib\":{most},\"heap_at_rest_kib\":{rest}}}"
            );
        } else {
            println!(
                "{protocol}: seed {seed}, {cases} cases, {messages} messages, {cpu:.1} s of CPU, {all} signs of which {signs} new, \
                 {kept} kept, {findings} findings; longest turn {turn} us, heap at most {most} KiB, at rest {rest} KiB"
            );
        }
        let _ = std::io::stdout().flush();
    }
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn watched(protocol: Protocol, input: &[u8]) -> campaign::notes::Seen {
    *RUNNING.lock().expect("nobody panics with it") = Some((Instant::now(), protocol, input.to_vec()));
    let seen = case::run(protocol, input, &Bounds::default());
    *RUNNING.lock().expect("nobody panics with it") = None;
    seen
}

/// Ends the process where a case does not come to its end.
fn watch(findings: &Path) {
    loop {
        std::thread::sleep(Duration::from_secs(5));
        let running = RUNNING.lock().expect("nobody panics with it");
        if let Some((since, protocol, input)) = &*running
            && since.elapsed() > HANGS_AFTER
        {
            let path = corpus::save(findings, input).expect("a place for findings");
            println!("finding: hang: a case takes more than {HANGS_AFTER:?}");
            println!("  repeat: campaign --protocol {} --replay {}", protocol.name(), path.display());
            std::process::abort();
        }
    }
}

/// Runs one case, twice: the first makes what a process makes once.
fn replay(protocol: Protocol, input: &[u8]) -> bool {
    case::run(protocol, &[], &Bounds::default());
    let seen = watched(protocol, input);
    println!(
        "{} messages, {} signs, longest turn {:?}, heap at most {} bytes, at rest {}",
        seen.messages,
        seen.signs.len(),
        seen.longest_turn,
        seen.heap_most,
        seen.heap_at_rest
    );
    seen.findings.iter().for_each(|finding| println!("finding: {finding}"));
    seen.findings.is_empty()
}

/// Makes a case that finds something as short as it still finds it, and writes it beside the first.
fn shrink(protocol: Protocol, path: &Path) {
    let kinds = |input: &[u8]| -> HashSet<String> {
        case::run(protocol, input, &Bounds::default())
            .findings
            .iter()
            .map(|finding| kind_of(finding))
            .collect()
    };
    let mut input = std::fs::read(path).expect("the file of a case");
    kinds(&[]);
    let Some(kind) = kinds(&input).into_iter().min() else { return println!("it finds nothing") };
    let mut part = input.len() / 2;
    while part > 0 {
        let mut at = 0;
        while at < input.len() {
            let mut less = input.clone();
            less.drain(at..(at + part).min(input.len()));
            if kinds(&less).contains(&kind) {
                input = less;
            } else {
                at += part;
            }
        }
        part /= 2;
    }
    for at in 0..input.len() {
        let mut plainer = input.clone();
        plainer[at] = 0;
        if kinds(&plainer).contains(&kind) {
            input = plainer;
        }
    }
    let path = path.with_extension("short");
    std::fs::write(&path, &input).expect("a place beside it");
    println!("{kind}: {} bytes in {}", input.len(), path.display());
    replay(protocol, &input);
}

/// Leaves of the corpus what shows all that the whole does, within so many bytes.
fn minimise(protocol: Protocol, options: &Options, bytes_max: usize) -> bool {
    let directory = directory(options, protocol);
    let cases = corpus::load(&directory).expect("the corpus");
    let cases: Vec<_> =
        cases.into_values().map(|input| (input.clone(), watched(protocol, &input).signs)).collect();
    let chosen: HashSet<usize> = corpus::cover(&cases, bytes_max).into_iter().collect();
    for (at, (input, _)) in cases.iter().enumerate() {
        if !chosen.contains(&at) {
            let _ = std::fs::remove_file(directory.join(corpus::name_of(input)));
        }
    }
    println!("{}: {} of {} cases are left", protocol.name(), chosen.len(), cases.len());
    true
}

/// Processes side by side, each with a seed of its own.
fn several(options: &Options) -> ExitCode {
    let program = std::env::current_exe().expect("it runs");
    let children: Vec<_> = (0..options.jobs)
        .map(|job| {
            let mut command = std::process::Command::new(&program);
            command.args([
                "--protocol",
                if options.protocols.len() > 1 { "both" } else { options.protocols[0].name() },
            ]);
            command.args([
                "--seconds",
                &options.seconds.to_string(),
                "--seed",
                &(options.seed + job).to_string(),
            ]);
            command.arg("--corpus").arg(&options.corpus).arg("--findings").arg(&options.findings);
            if options.is_json {
                command.arg("--json");
            }
            if options.keeps_going {
                command.arg("--keep-going");
            }
            command.spawn().expect("one more process")
        })
        .collect();
    let mut is_good = true;
    for mut child in children {
        is_good &= child.wait().is_ok_and(|status| status.success());
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        protocols: vec![Protocol::Smb, Protocol::Afs],
        seconds: 60,
        seed: 1,
        corpus: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus")),
        findings: PathBuf::from("findings"),
        jobs: 1,
        is_json: false,
        replay: None,
        hex: None,
        minimise: None,
        shrink: None,
        keeps_going: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        match argument.as_str() {
            "--protocol" => {
                options.protocols = match value()?.as_str() {
                    "smb" => vec![Protocol::Smb],
                    "afs" => vec![Protocol::Afs],
                    "both" => vec![Protocol::Smb, Protocol::Afs],
                    other => return Err(format!("{other} is no protocol")),
                }
            }
            "--seconds" => options.seconds = number(value()?)?,
            "--seed" => options.seed = number(value()?)?,
            "--corpus" => options.corpus = value()?.into(),
            "--findings" => options.findings = value()?.into(),
            "--jobs" => options.jobs = number(value()?)?,
            "--json" => options.is_json = true,
            "--replay" => options.replay = Some(value()?.into()),
            "--hex" => {
                let text = value()?;
                let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2).unwrap_or("?"), 16).ok();
                let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
                options.hex = Some(bytes.ok_or("--hex takes pairs of hexadecimal digits")?);
            }
            "--minimise" => options.minimise = Some(number(value()?)? as usize),
            "--shrink" => options.shrink = Some(value()?.into()),
            "--keep-going" => options.keeps_going = true,
            other => return Err(format!("there is no {other}")),
        }
    }
    Ok(options)
}

const HANGS_AFTER: Duration = Duration::from_secs(120);
const USAGE: &str = "campaign [--protocol smb|afs|both] [--seconds N] [--seed S] [--corpus DIR] [--findings DIR] [--jobs N] [--json] \
                     [--keep-going] [--replay FILE | --hex DIGITS | --shrink FILE | --minimise BYTES]";
