//! The minimum cut between two nodes of a network, by Dinic's algorithm (shortest augmenting paths, level by level).

/// A capacity that no cut may contain.
pub const NEVER: u64 = u64::MAX / 8;

/// A directed network with capacities.
#[derive(Default)]
pub struct Network {
    /// The target and the remaining capacity of each edge; the reverse edge follows it.
    edges: Vec<(usize, u64)>,
    /// For each node, its edges.
    nodes: Vec<Vec<usize>>,
}

impl Network {
    /// Adds a node.
    pub fn node(&mut self) -> usize {
        self.nodes.push(Vec::new());
        self.nodes.len() - 1
    }

    /// Adds an edge and returns its number.
    pub fn edge(&mut self, from: usize, to: usize, capacity: u64) -> usize {
        let at = self.edges.len();
        self.edges.extend([(to, capacity), (from, 0)]);
        self.nodes[from].push(at);
        self.nodes[to].push(at + 1);
        at
    }

    /// Removes all flow, and gives every edge the capacity `capacity(edge)`.
    pub fn reset(&mut self, capacity: impl Fn(usize) -> u64) {
        for at in (0..self.edges.len()).step_by(2) {
            self.edges[at].1 = capacity(at);
            self.edges[at + 1].1 = 0;
        }
    }

    /// For each node, whether it is on the side of `source` in a minimum cut between `source` and `sink`.
    pub fn cut(&mut self, source: usize, sink: usize) -> Vec<bool> {
        loop {
            let levels = self.levels(source);
            if levels[sink].is_none() {
                return levels.iter().map(Option::is_some).collect();
            }
            let mut next = vec![0; self.nodes.len()];
            while self.push(source, sink, &levels, &mut next) {}
        }
    }

    /// The distances from `source` over edges with remaining capacity.
    fn levels(&self, source: usize) -> Vec<Option<usize>> {
        let mut levels = vec![None; self.nodes.len()];
        levels[source] = Some(0);
        let mut queue = std::collections::VecDeque::from([source]);
        while let Some(node) = queue.pop_front() {
            let level = levels[node].map(|l| l + 1);
            for &at in &self.nodes[node] {
                let (to, left) = self.edges[at];
                if left > 0 && levels[to].is_none() {
                    levels[to] = level;
                    queue.push_back(to);
                }
            }
        }
        levels
    }

    /// Sends as much flow as possible along one shortest path. Programs are deep, so the path is a list and not a
    /// recursion.
    fn push(&mut self, source: usize, sink: usize, levels: &[Option<usize>], next: &mut [usize]) -> bool {
        let mut path: Vec<usize> = Vec::new();
        loop {
            let node = path.last().map_or(source, |at| self.edges[*at].0);
            if node == sink {
                let amount = path.iter().map(|at| self.edges[*at].1).min().unwrap_or(0);
                for at in path {
                    self.edges[at].1 -= amount;
                    self.edges[at ^ 1].1 += amount;
                }
                return true;
            }
            let open = |at: &usize| {
                let (to, left) = self.edges[*at];
                left > 0 && levels[to].is_some() && levels[to] == levels[node].map(|l| l + 1)
            };
            match self.nodes[node][next[node]..].iter().position(open) {
                Some(skipped) => {
                    next[node] += skipped;
                    path.push(self.nodes[node][next[node]]);
                }
                None => {
                    next[node] = self.nodes[node].len();
                    let Some(back) = path.pop() else { return false };
                    next[self.edges[back ^ 1].0] += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Network;

    #[test]
    fn the_cheapest_cut_is_found() {
        // two paths carry 3 + 2, and the cross edge lets one more through on the second
        let mut net = Network::default();
        let [s, a, b, t] = [(); 4].map(|_| net.node());
        net.edge(s, a, 4);
        net.edge(s, b, 2);
        net.edge(a, b, 9);
        net.edge(a, t, 1);
        net.edge(b, t, 3);
        assert_eq!(net.cut(s, t), [true, true, true, false]);
        let flow: u64 = (0..2).map(|i| [4, 2][i] - net.edges[2 * i].1).sum();
        assert_eq!(flow, 4);
        net.reset(|edge| [1, 1, 9, 9, 9][edge / 2]);
        assert_eq!(net.cut(s, t), [true, false, false, false]);
    }
}
