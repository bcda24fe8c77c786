//! Schedules as data: generated, printed and read, checked, simulated.

use fulgurite::schedule::{Costs, Generator, KINDS, Law, Limits, Schedule, Timeline, check, simulate};

fn make(kind: &'static str, ranks: usize, micro_batches: usize, chunks: usize) -> Schedule {
    let made = Generator { kind, ranks, micro_batches, chunks }.make();
    made.unwrap_or_else(|e| panic!("{kind} P{ranks} v{chunks} m{micro_batches}: {e}"))
}

fn run(s: &Schedule, times: (u64, u64, u64)) -> Timeline {
    simulate(s, &Costs::even(s.stages, times.0, times.1, times.2)).unwrap_or_else(|e| panic!("{s}\n{e}"))
}

/// A rank's line without waiting.
fn words(s: &Schedule, rank: usize) -> String {
    let text = s.to_string();
    let line = text.lines().nth(rank + 1).unwrap_or_default();
    line.split_once(':').map_or("", |(_, words)| words.trim()).to_owned()
}

/// A schedule for ranks, micro-batches, stages a rank; its makespan; idle time, peak and list of each rank.
type Expected = (&'static str, usize, usize, usize, u64, [u64; 2], [usize; 2], [&'static str; 2]);

/// The reference's timelines.
const TIMELINES: [Expected; 7] = [
    ("gpipe", 2, 3, 1, 12, [3, 3], [3, 3], ["0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1F1 1F2 1B0 1B1 1B2"]),
    ("1f1b", 2, 4, 1, 15, [3, 3], [2, 1], ["0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"]),
    (
        "interleaved",
        2,
        4,
        2,
        27,
        [3, 3],
        [5, 3],
        [
            "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3",
            "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3",
        ],
    ),
    ("bfs", 2, 2, 2, 15, [3, 3], [4, 4], ["0F0 0F1 2F0 2F1 2B1 2B0 0B1 0B0", "1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0"]),
    (
        "zb1p",
        2,
        4,
        1,
        13,
        [1, 1],
        [2, 2],
        ["0F0 0F1 0I0 0W0 0F2 0I1 0W1 0F3 0I2 0W2 0I3 0W3", "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1F3 1I3 1W2 1W3"],
    ),
    (
        "zbv",
        2,
        4,
        2,
        25,
        [1, 1],
        [4, 4],
        [
            "0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 3W3 0I2 0W2 0I3 0W3",
            "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1I2 2I3 1I3 1W2 2W3 1W3",
        ],
    ),
    (
        "dualpipev",
        2,
        4,
        2,
        25,
        [1, 1],
        [5, 5],
        [
            "0F0 0F1 0F2 3F0 3I0 3W0 3F1 (0F3;3B1)O (3F2;0B0)O 3B2 (3F3;0B1)O 3B3 0I2 0W2 0I3 0W3",
            "1F0 2F0 1F1 2F1 1F2 2B0 (2F2;1B0)O (1F3;2B1)O (2F3;1B1)O 2B2 1B2 2I3 1I3 2W3 1W3",
        ],
    ),
];

#[test]
fn s3_20_schedules_of_the_literature() {
    for (kind, ranks, m, chunks, makespan, idle, peak, lists) in TIMELINES {
        let s = make(kind, ranks, m, chunks);
        let t = run(&s, (1, 1, 1));
        for rank in 0..ranks {
            assert_eq!(words(&s, rank), lists[rank], "{kind}");
            assert_eq!((t.ranks[rank].idle, t.ranks[rank].peak), (idle[rank], peak[rank]), "{kind}, rank {rank}");
        }
        assert_eq!(t.makespan, makespan, "{kind}");
    }
    let s = make("1f1b", 4, 2, 1);
    assert_eq!(words(&s, 0), "0F0 0F1 0B0 0B1");
    assert_eq!(words(&s, 3), "3F0 3B0 3F1 3B1");
    assert!(check(&make("interleaved", 4, 6, 2), &Limits::default()).is_empty());
    let error = Generator { kind: "interleaved", ranks: 4, micro_batches: 9, chunks: 2 }.make().unwrap_err();
    assert!(error.to_string().contains("9 micro-batches do not divide into 2 rounds"), "{error}");
    let error = Generator { kind: "dualpipev", ranks: 4, micro_batches: 7, chunks: 2 }.make().unwrap_err();
    assert!(error.to_string().contains("at least 8 micro-batches, not 7"), "{error}");
}

/// Which numbers a schedule is defined for.
fn defined(kind: &str, ranks: usize, m: usize, chunks: usize) -> bool {
    match kind {
        "gpipe" | "1f1b" => chunks == 1,
        "zbv" => chunks == 2,
        "dualpipev" => chunks == 2 && m >= 2 * ranks,
        "interleaved" | "zb1p" => chunks == 1 || m.is_multiple_of((m / ranks).max(1)),
        _ => true,
    }
}

fn all() -> impl Iterator<Item = (&'static str, usize, usize, usize)> {
    let numbers = || (1..=6).flat_map(|p| (1..=16).flat_map(move |m| (1..=3).map(move |v| (p, m, v))));
    KINDS.into_iter().flat_map(move |kind| {
        numbers().filter(move |&(p, m, v)| defined(kind, p, m, v)).map(move |(p, m, v)| (kind, p, m, v))
    })
}

#[test]
fn s3_20_all_are_legal_and_parse_back() {
    let mut count = 0;
    for (kind, p, m, v) in all() {
        let s = make(kind, p, m, v);
        let found = check(&s, &Limits::default());
        assert!(found.is_empty(), "{kind} P{p} m{m} v{v}: {}\n{s}", found[0]);
        assert_eq!(s.to_string().parse::<Schedule>().unwrap(), s);
        count += 1;
    }
    assert!(count > 900, "{count}");
}

fn laws(text: &str) -> Vec<String> {
    let s: Schedule = text.parse().unwrap_or_else(|e| panic!("{text}\n{e}"));
    check(&s, &Limits::default()).iter().map(ToString::to_string).collect()
}

#[test]
fn s3_21_the_checker_finds_what_is_wrong() {
    let has = |text: &str, parts: &[&str]| {
        let found = laws(text);
        for part in parts {
            assert!(found.iter().any(|f| f.contains(part)), "{part} in {found:?}");
        }
    };
    has("r0: 0F0 0F0 0B0", &["L2 rank 0, position 1: `0F0` a second time"]);
    has("r0: 0F0 0B0 0B0", &["L2 rank 0, position 2: `0B0` a second time"]);
    has("r0: 0F0 0F1 0B0 0I0 0W0", &["L2: B and I/W for (0,0)", "L2: no backward for (0,1)"]);
    has("stages 1, micro-batches 1, place 0\nr0: 0F5 0B5", &["micro-batch 5 is out of range 0..1"]);
    has(
        "r0: 0F0 0B0 0F1 0B1\nr1: 1F1 1F0 1B0 1B1",
        &["L4: the ranks wait for each other at `0B0` on rank 0, `1F1` on rank 1; 0B0->0F1->1F1->1F0->1B0->0B0"],
    );
    has("r0: 0F0 0W0 0I0", &["L3 rank 0, position 1: `0W0` before `0I0`"]);
    has(
        "stages 2, micro-batches 1, place 0 1\nr0: 0F0 1F0 1B0 0B0\nr1:",
        &["L1 rank 0, position 1: `1F0`: stage 1 is on rank 1"],
    );
    has("r0: (0F0;0B0)O", &["L5 rank 0, position 0"]);
    has(
        "r0: 0F0 0F0> 0B0\nr1: 1F0 1B0",
        &["L6", "`0F0` is sent, nothing received", "`1B0` is not sent to rank Some(0)"],
    );
    has(
        "r0: 0F0 0F1 0F0> 0F1> >0B0 0B0 >0B1 0B1\nr1: >1F1 1F1 >1F0 1F0 1B0 1B0> 1B1 1B1>",
        &["exchange number 0 from rank 0 to rank 1: `0F0` is sent, `0F1` received"],
    );
    assert!(laws("r0: 0F0 0F0> >0B0 0B0 R0\nr1: >1F0 1F0 1B0 1B0> R1").is_empty());
    has("r0: 0F0 R0 0B0", &["L7 rank 0, position 1: `R0` before `0B0`"]);
    let s = make("gpipe", 2, 4, 1);
    let found = check(&s, &Limits { live: Some(3) });
    assert_eq!((found[0].law, found[0].rank, found[0].position), (Law::Limit, Some(0), Some(3)), "{found:?}");
    let error = "r0: 0F0 0X1".parse::<Schedule>().unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().contains("rank 0, position 1: `0X1` is no action")),
        ("E751", true),
        "{error}"
    );
}

/// Tied weights: both stages reduce, or the tie is named.
#[test]
fn s3_24_ties() {
    let mut s = make("1f1b", 2, 2, 1);
    s.ties = vec![vec![0, 1]];
    for (rank, list) in s.lists.iter_mut().enumerate() {
        list.push(fulgurite::schedule::Action::Reduce(rank));
    }
    assert!(check(&s, &Limits::default()).is_empty());
    s.lists[1].pop();
    let found = check(&s, &Limits::default());
    assert_eq!((found.len(), found[0].law), (1, Law::Reduce));
    assert!(found[0].claim.contains("stage 1 shares weights (tie 0 1)"), "{}", found[0]);
}

/// The reference's formulas, with integers: nothing is rounded.
#[test]
fn s3_22_times_are_those_of_the_formulas() {
    let times = [(1, 1, 1), (2, 3, 1), (3, 1, 4), (2, 2, 2), (1, 2, 3)];
    let mut agreed = 0;
    for (kind, p, m, v) in all() {
        let s = make(kind, p, m, v);
        for (f, i, w) in times {
            let t = run(&s, (f, i, w));
            let b = i + w;
            let behind = (p - 1) as u64;
            for (r, rank) in t.ranks.iter().enumerate() {
                let ahead = 2 * (p - 1 - r);
                let (idle, peak) = match kind {
                    "gpipe" => (Some(behind * (f + b)), Some(m)),
                    "1f1b" => (Some(behind * (f + b)), Some(m.min(p - r))),
                    "interleaved" => {
                        let peak = if v == 1 { None } else { Some((m * v).min((v - 1) * p + ahead + 1)) };
                        let whole = m.is_multiple_of(p);
                        (whole.then_some(behind * (f + b)), peak.filter(|_| whole))
                    }
                    "bfs" => ((m >= p).then_some(behind * (f + b)), Some(m * v)),
                    "zb1p" if v == 1 => {
                        let idle = behind * ((f + i).saturating_sub(w)).max(f).max(i);
                        ((m >= p).then_some(idle), Some(m.min(p)))
                    }
                    "zbv" if (f, i, w) == (1, 1, 1) && m >= 2 * p - 1 => {
                        assert_eq!(rank.inside, 0, "{kind} P{p} m{m}");
                        (Some(behind), Some(2 * p))
                    }
                    "dualpipev" if (f, i, w) == (1, 1, 1) => {
                        assert_eq!(rank.inside, (p - 1 - r) as u64, "{kind} P{p} m{m} rank {r}");
                        (Some(behind), None)
                    }
                    _ => (None, None),
                };
                let told = format!("{kind} P{p} m{m} v{v} ({f},{i},{w}) rank {r}");
                if let Some(idle) = idle {
                    assert_eq!(rank.idle, idle, "{told}");
                    agreed += 1;
                }
                if let Some(peak) = peak {
                    assert_eq!(rank.peak, peak, "{told}");
                }
            }
        }
    }
    assert!(agreed > 5_000, "{agreed}");
}

/// A delay between ranks, overlap that gains, bytes of what is kept.
#[test]
fn s3_22_delays_overlaps_and_bytes() {
    let s = make("1f1b", 2, 1, 1);
    let mut costs = Costs::even(2, 1, 1, 1);
    costs.delay = 10;
    assert_eq!(simulate(&s, &costs).unwrap().makespan, 1 + 10 + 1 + 2 + 10 + 2);
    let s = make("dualpipev", 2, 4, 2);
    let mut costs = Costs::even(4, 10, 10, 10);
    let whole = simulate(&s, &costs).unwrap().makespan;
    costs.overlap = 80;
    assert!(simulate(&s, &costs).unwrap().makespan < whole);
    let s = make("zb1p", 2, 4, 1);
    let mut costs = Costs::even(2, 1, 1, 1);
    (costs.kept, costs.handed) = (vec![100, 10], vec![30, 3]);
    let t = simulate(&s, &costs).unwrap();
    assert_eq!(t.ranks.iter().map(|r| r.bytes).collect::<Vec<_>>(), [200, 13]);
    assert_eq!(simulate(&"r0: 0B0 0F0".parse().unwrap(), &Costs::even(1, 1, 1, 1)).unwrap_err().code(), "E751");
}

/// A schedule may come from anywhere, and may be made by hand: numbers that do not fit are refused, and nothing overflows.
#[test]
fn misshapen_schedules_are_refused() {
    let huge = "stages 60000, micro-batches 60000, place ".to_owned() + &"0 ".repeat(60_000) + "\nr0: 0F0";
    let error = huge.parse::<Schedule>().unwrap_err();
    assert!(error.code() == "E751" && error.to_string().contains("more than 4194304"), "{error}");
    let huge = Generator { kind: "1f1b", ranks: usize::MAX / 2, micro_batches: 3, chunks: 1 };
    assert_eq!(huge.make().unwrap_err().code(), "E751");
    let mut s = make("1f1b", 2, 2, 1);
    s.place.pop();
    assert_eq!(simulate(&s, &Costs::even(2, 1, 1, 1)).unwrap_err().code(), "E751");
    assert_eq!(check(&s, &Limits::default())[0].claim, "2 stages, but 1 places");
    let s = make("dualpipev", 2, 4, 2);
    let mut costs = Costs::even(4, u64::MAX, u64::MAX, u64::MAX);
    costs.delay = u64::MAX;
    assert_eq!(simulate(&s, &costs).unwrap().makespan, u64::MAX, "saturates");
}

/// Halves of an overlap run one after the other: what the simulator can run the checker does not call stuck.
#[test]
fn checker_and_simulator_agree_on_overlaps() {
    let s: Schedule = "r0: 0F0 (0F1;0B0)O 0B1\nr1: 1F0 1F1 1B0 1B1".parse().unwrap();
    assert!(check(&s, &Limits::default()).is_empty());
    assert!(simulate(&s, &Costs::even(2, 1, 1, 1)).is_ok());
}
