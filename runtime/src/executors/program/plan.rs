//! The memory plan, which decides once where every value of a program is.
//!
//! A value lives from the step that writes it to the last step that reads it. Values that leave the program get blocks
//! of their own; the others get offsets in one arena, which are reused as values die. If a step reads each element of a
//! dying value before it writes that element of its result, the result takes over the memory.

/// A value that needs a place.
#[derive(Clone, Debug)]
pub struct Request {
    /// The number of bytes.
    pub bytes: usize,
    /// The first step that writes the value.
    pub from: usize,
    /// The last step that uses the value.
    pub to: usize,
    /// Whether the value has a place already: as an input, or in a block of an output.
    pub fixed: bool,
}

/// Offsets in an arena.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The offset of each request; fixed ones have none.
    pub offsets: Vec<Option<usize>>,
    /// The bytes of the arena.
    pub bytes: usize,
    /// The most bytes that are in use at once.
    pub peak: usize,
}

const ALIGN: usize = 64;

/// Places requests by first fit, in the order in which they are written.
pub fn place(requests: &[Request]) -> Plan {
    let mut order: Vec<usize> = (0..requests.len()).filter(|i| !requests[*i].fixed).collect();
    order.sort_by_key(|i| (requests[*i].from, std::cmp::Reverse(requests[*i].bytes)));
    let mut plan = Plan { offsets: vec![None; requests.len()], ..Plan::default() };
    // The parts in use, sorted by offset.
    let mut used: Vec<(usize, usize, usize)> = Vec::new();
    for i in order {
        let r = &requests[i];
        let size = r.bytes.next_multiple_of(ALIGN).max(ALIGN);
        used.retain(|(_, _, to)| *to >= r.from);
        let mut at = 0usize;
        let mut slot = used.len();
        for (k, (offset, bytes, _)) in used.iter().enumerate() {
            if at.saturating_add(size) <= *offset {
                slot = k;
                break;
            }
            // sizes that exceed all memory saturate, and are refused when the program runs
            at = offset.saturating_add(*bytes);
        }
        used.insert(slot, (at, size, r.to));
        plan.offsets[i] = Some(at);
        plan.bytes = plan.bytes.max(at.saturating_add(size));
        plan.peak = plan.peak.max(used.iter().fold(0, |all, u| all.saturating_add(u.1)));
    }
    debug_assert_eq!(overlap(requests, &plan), None);
    plan
}

/// Two requests that overlap in memory while both are in use, if there are any.
pub fn overlap(requests: &[Request], plan: &Plan) -> Option<(usize, usize)> {
    for (i, a) in requests.iter().enumerate() {
        let Some(x) = plan.offsets[i] else { continue };
        for (j, b) in requests.iter().enumerate().skip(i + 1) {
            let Some(y) = plan.offsets[j] else { continue };
            let in_time = a.from <= b.to && b.from <= a.to;
            if in_time && x < y.saturating_add(b.bytes) && y < x.saturating_add(a.bytes) {
                return Some((i, j));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_memory_is_used_again_and_live_memory_is_not() {
        let r = |bytes, from, to| Request { bytes, from, to, fixed: false };
        let chain: Vec<Request> = (0..10).map(|i| r(1000, i, i + 1)).collect();
        let plan = place(&chain);
        assert_eq!(plan.bytes, 2 * 1024);
        assert_eq!(overlap(&chain, &plan), None);
        let mut state = 12345u64;
        let mut next = |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        for _ in 0..50 {
            let many: Vec<Request> = (0..60)
                .map(|_| {
                    let from = next(40);
                    Request { bytes: next(5000), from, to: from + next(10), fixed: next(9) == 0 }
                })
                .collect();
            let plan = place(&many);
            assert_eq!(overlap(&many, &plan), None);
            assert!(plan.peak <= plan.bytes);
        }
    }
}
