//! Processor, threads and memory, from `/proc` and `/sys`. Missing information is left out.

use super::{Finding, Verdict, finding};
use crate::ui::format;
use fulgurite::executors::cpu::Level;
use fulgurite::executors::threads as in_use;
use serde_json::{Value, json};
use std::fs;

/// The processor's name.
pub fn processor() -> Finding {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = field(&text, &["model name", "Hardware", "cpu model"]).map(str::to_owned);
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let shown = name.clone().unwrap_or_else(|| format!("{} (the system gives no name)", std::env::consts::ARCH));
    finding("processor", Verdict::Fine, format!("{shown}, {cores} for us"), "", json!({"name": name, "cores": cores}))
}

/// The value of the first line that one of these names begins.
fn field<'t>(text: &'t str, names: &[&str]) -> Option<&'t str> {
    let value = |line: &'t str| {
        let (name, value) = line.split_once(':')?;
        names.contains(&name.trim()).then(|| value.trim()).filter(|v| !v.is_empty())
    };
    text.lines().find_map(value)
}

/// The instruction set of the kernels.
pub fn instructions() -> Finding {
    let (has, runs) = (Level::detect(), Level::current());
    let asked = std::env::var("FULGURITE_ISA").ok();
    let what = match runs {
        Level::Baseline => "any processor of this architecture",
        Level::Avx2 => "AVX2, FMA, F16C",
        Level::Avx512 => "AVX-512 F, VL, DQ, BW",
    };
    let text = format!("kernels run in their form for {what} (`{}`)", runs.name());
    let (verdict, why) = match &asked {
        Some(asked) if runs < has => (
            Verdict::Note,
            format!("the processor has `{}`; FULGURITE_ISA={asked} lowers it: unset it for full speed", has.name()),
        ),
        Some(asked) if asked != runs.name() => {
            (Verdict::Note, format!("FULGURITE_ISA={asked} changes nothing: it can lower `{}`, no more", has.name()))
        }
        _ if has == Level::Baseline => {
            (Verdict::Note, "the processor has no vectors that kernels are written for: AVX2 or AVX-512".to_owned())
        }
        _ => (Verdict::Fine, "the best that the processor has; FULGURITE_ISA lowers it".to_owned()),
    };
    let value = json!({"runs": runs.name(), "has": has.name(), "asked": asked});
    finding("instructions", verdict, text, why, value)
}

/// The number of computing threads.
pub fn threads(wanted: usize, asked: bool) -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let online = fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let online = online.as_deref().and_then(|text| count(text.trim()));
    let value = json!({"threads": in_use(), "allowed": cores, "online": online});
    let text = format!("{wanted} in use");
    let (verdict, why) = match online {
        _ if asked && wanted > cores => {
            (Verdict::Note, format!("--threads asks for more than the {cores} that we may use: they take turns"))
        }
        _ if asked => (Verdict::Fine, "--threads says so".to_owned()),
        Some(online) if online > cores => {
            (Verdict::Fine, format!("{online} cores are online; an affinity or a container's quota leaves us {cores}"))
        }
        _ => (Verdict::Fine, "one a core; results do not depend on it".to_owned()),
    };
    finding("threads", verdict, text, why, value)
}

/// The number of items in a list such as `0-3,8`.
fn count(list: &str) -> Option<usize> {
    let one = |part: &str| match part.split_once('-') {
        None => part.parse::<usize>().ok().map(|_| 1),
        Some((from, to)) => to.parse::<usize>().ok()?.checked_sub(from.parse().ok()?)?.checked_add(1),
    };
    list.split(',').map(one).sum()
}

/// The caches of the first core.
pub fn caches() -> Finding {
    let folder = "/sys/devices/system/cpu/cpu0/cache";
    let mut found: Vec<(String, String, usize)> = Vec::new();
    for i in 0..8 {
        let read = |name: &str| fs::read_to_string(format!("{folder}/index{i}/{name}")).ok();
        let (Some(level), Some(kind), Some(size)) = (read("level"), read("type"), read("size")) else { break };
        let Some(bytes) = bytes(size.trim()) else { continue };
        found.push((level.trim().to_owned(), kind.trim().to_lowercase(), bytes));
    }
    if found.is_empty() {
        return finding("caches", Verdict::Fine, "the system does not tell their sizes", "", Value::Null);
    }
    let data = found.iter().filter(|c| c.1 != "instruction");
    let text = data.map(|(level, _, n)| format!("L{level} {}", binary(*n))).collect::<Vec<_>>().join(" · ");
    let value = found.iter().map(|(level, kind, n)| json!({"level": level, "type": kind, "bytes": n}));
    finding("caches", Verdict::Fine, text, "", value.collect::<Vec<_>>().into())
}

/// Bytes of `48K`, `2M`.
fn bytes(text: &str) -> Option<usize> {
    let unit = match text.as_bytes().last()? {
        b'K' => 1 << 10,
        b'M' => 1 << 20,
        b'G' => 1 << 30,
        _ => return text.parse().ok(),
    };
    text[..text.len() - 1].parse::<usize>().ok()?.checked_mul(unit)
}

/// A size in powers of two, as caches and memory are sold.
fn binary(n: usize) -> String {
    match n {
        _ if n >= 1 << 30 => format!("{:.1} GiB", n as f64 / f64::from(1 << 30)),
        _ if n >= 1 << 20 => format!("{:.1} MiB", n as f64 / f64::from(1 << 20)),
        _ => format!("{} KiB", n >> 10),
    }
}

/// The memory that the demo needs: half a gigabyte is twice the need of its step.
const ENOUGH: usize = 1 << 29;

/// The total and the free memory.
pub fn memory() -> Finding {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |name: &str| field(&text, &[name])?.split_whitespace().next()?.parse::<usize>().ok();
    let (Some(total), Some(free)) = (kib("MemTotal"), kib("MemAvailable")) else {
        return finding("memory", Verdict::Fine, "the system does not tell", "", Value::Null);
    };
    let (total, free) = (total << 10, free << 10);
    // A container may allow less memory than the machine has.
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limit = limits.iter().find_map(|path| fs::read_to_string(path).ok()?.trim().parse::<usize>().ok());
    let limit = limit.filter(|limit| *limit < total);
    let text = format!("{} free of {}", binary(free), binary(total));
    let text = limit.map_or(text.clone(), |limit| format!("{text}, of which this container may use {}", binary(limit)));
    let low = free.min(limit.unwrap_or(free)) < ENOUGH;
    let (verdict, why) = match low {
        true => (
            Verdict::Note,
            format!(
                "the demo needs about {}: end other programs, or take a smaller --batch",
                format::bytes(ENOUGH / 2)
            ),
        ),
        false => (Verdict::Fine, String::new()),
    };
    finding("memory", verdict, text, why, json!({"total": total, "available": free, "limit": limit}))
}

/// Whether large blocks get huge pages.
pub fn huge_pages() -> Finding {
    let Ok(text) = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled") else {
        let why = "large blocks are cleared page by page: the first step takes longer";
        return finding("huge pages", Verdict::Note, "the system has none that programs may ask for", why, Value::Null);
    };
    let mode = text.split(['[', ']']).nth(1).unwrap_or("unknown").to_owned();
    let (verdict, says, why) = match mode.as_str() {
        "always" | "madvise" => (Verdict::Fine, "used for large blocks", "we ask for them; `madvise` is enough"),
        _ => (
            Verdict::Note,
            "not used",
            "the system refuses them: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
        ),
    };
    finding("huge pages", verdict, format!("{says} (the system says `{mode}`)"), why, json!({"mode": mode}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_system_are_read() {
        assert_eq!(field("processor : 0\nmodel name\t: A, 3 GHz\n", &["model name"]), Some("A, 3 GHz"));
        assert_eq!(field("model name : \nx", &["model name"]), None);
        assert_eq!([count("0-3"), count("0"), count("0-1,4,6-7")], [Some(4), Some(1), Some(5)]);
        assert_eq!([count(""), count("3-1"), count("a-b")], [None; 3]);
        assert_eq!([bytes("48K"), bytes("2M"), bytes("17")], [Some(49152), Some(2 << 20), Some(17)]);
        assert_eq!([bytes(""), bytes("K"), bytes("99999999999999999999G")], [None; 3]);
        assert_eq!([binary(48 << 10), binary(2 << 20), binary(3 << 29)], ["48 KiB", "2.0 MiB", "1.5 GiB"]);
    }
}
