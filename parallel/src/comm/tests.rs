use super::*;
use std::time::Instant;

/// Runs `f` on a rank per link, and returns the results.
fn on_all<T: Send>(links: Vec<Box<dyn Communicator + Send>>, f: impl Fn(Ranks) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let one = |link: Box<dyn Communicator + Send>| {
            let f = &f;
            scope.spawn(move || f(Ranks::new(link, Duration::from_millis(300))))
        };
        let threads: Vec<_> = links.into_iter().map(one).collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect()
    })
}

fn threads(n: usize) -> Vec<Box<dyn Communicator + Send>> {
    Local::ranks(n).into_iter().map(|link| Box::new(link) as _).collect()
}

#[cfg(unix)]
fn sockets(name: &str, n: usize) -> Vec<Box<dyn Communicator + Send>> {
    let folder = std::env::temp_dir().join(format!("fulgurite-comm-{}-{name}-{n}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let meet = |rank| Socket::meet(&folder, rank, n, Duration::from_secs(5)).expect("all come");
    let met = std::thread::scope(|scope| {
        let all: Vec<_> = (0..n).map(|rank| scope.spawn(move || meet(rank))).collect();
        all.into_iter().map(|t| Box::new(t.join().expect("no panic")) as _).collect()
    });
    std::fs::remove_dir_all(&folder).expect("there");
    met
}

/// Numbers whose sum depends on the order in which they are added.
fn share(rank: usize, len: usize) -> Vec<f32> {
    (0..len).map(|i| (1.0 + i as f32) * 10f32.powi([7, -3, 0, -7, 4][rank]) * [1.0, -1.0][rank % 2]).collect()
}

fn sums(links: Vec<Box<dyn Communicator + Send>>, len: usize) {
    let n = links.len();
    let expected = (1..n).fold(share(0, len), |mut sum, rank| {
        add(&mut sum, &share(rank, len));
        sum
    });
    let group: Vec<usize> = (0..n).collect();
    let all = on_all(links, |mut ranks| {
        let mine = share(ranks.rank(), len);
        // two sums at a time, the second finished first
        let mut a = Reduction::start(&mut ranks, &group, FIRST_TAG, mine.clone()).expect("sent");
        let b = Reduction::start(&mut ranks, &group, FIRST_TAG + 1, mine).expect("sent");
        a.advance(&mut ranks).expect("fits");
        let b = b.finish(&mut ranks, &"b").expect("summed");
        let a = a.finish(&mut ranks, &"a").expect("summed");
        ranks.close().expect("all come");
        (a, b)
    });
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for (a, b) in all {
        assert_eq!((bits(&a), bits(&b)), (bits(&expected), bits(&expected)), "{n} ranks, {len} numbers");
    }
}

#[test]
fn sums_are_those_in_the_order_of_ranks_whatever_carries_them() {
    for n in 1..=5 {
        for len in [0, 1, 3, 1000] {
            sums(threads(n), len);
            #[cfg(unix)]
            sums(sockets(&format!("sum{len}"), n), len);
        }
    }
}

#[test]
fn groups_sum_apart_and_everyone_hears_the_root() {
    let all = on_all(threads(4), |mut ranks| {
        let rank = ranks.rank();
        let group = [rank % 2, rank % 2 + 2];
        let sum = Reduction::start(&mut ranks, &group, FIRST_TAG, vec![rank as f32; 3]).expect("sent");
        let sum = sum.finish(&mut ranks, &"it").expect("summed");
        let gathered = ranks.gather(2, FIRST_TAG, vec![rank as u8], &"a number").expect("all come");
        let word = if rank == 2 { b"word".to_vec() } else { Vec::new() };
        let heard = ranks.broadcast(2, FIRST_TAG, word, &"a word").expect("heard");
        ranks.close().expect("all come");
        (sum, gathered, heard)
    });
    for (rank, (sum, gathered, heard)) in all.into_iter().enumerate() {
        assert_eq!((sum, heard), (vec![[2.0, 4.0][rank % 2]; 3], b"word".to_vec()));
        assert_eq!(gathered.len(), if rank == 2 { 4 } else { 0 });
        assert!(gathered.iter().enumerate().all(|(at, bytes)| *bytes == [at as u8]));
    }
}

#[test]
fn lengths_that_differ_are_told() {
    let codes = on_all(threads(2), |mut ranks| {
        let mine = vec![0.0; 4 + ranks.rank() * 6];
        let sum = Reduction::start(&mut ranks, &[0, 1], FIRST_TAG, mine).expect("sent");
        let why = sum.finish(&mut ranks, &"it").expect_err("it can't");
        let code = why.code();
        ranks.stop(&why, 1);
        code
    });
    // the first rank to notice reports the error, and later ones are told
    assert!(codes.iter().all(|c| ["E773", "E772"].contains(c)) && codes.contains(&"E773"), "{codes:?}");
    let error = on_all(threads(2), |mut ranks| {
        Reduction::start(&mut ranks, &[5], FIRST_TAG, Vec::new()).err().map(|e| e.code())
    });
    assert_eq!(error, [Some("E773"); 2]);
}

/// Rank 1 hangs; 0 waits for 3, 3 for 2, 2 for 1. The rank that reports it names 1.
#[test]
fn the_rank_that_hangs_is_named() {
    let start = Instant::now();
    let all = on_all(threads(4), |mut ranks| {
        let from = match ranks.rank() {
            1 => {
                std::thread::sleep(Duration::from_millis(2000));
                return None;
            }
            0 => 3,
            rank => rank - 1,
        };
        ranks.doing("2F3 of step 12");
        let error = ranks.receive(from, FIRST_TAG, &"1F3").expect_err("nothing comes");
        let (code, text) = (error.code(), error.to_string());
        ranks.stop(&error, 1);
        Some((code, text))
    });
    assert!(start.elapsed() < Duration::from_secs(6));
    let all: Vec<_> = all.into_iter().flatten().collect();
    assert_eq!(all.len(), 3);
    assert!(all.iter().any(|(code, _)| *code == "E770"), "{all:?}");
    for (code, text) in all {
        assert!(["E770", "E772"].contains(&code), "{text}");
        assert!(text.contains("rank 1 does not answer within 0.3 s"), "{text}");
        assert!(text.contains("2F3 of step 12"), "{text}");
    }
}

#[test]
fn ranks_that_wait_for_each_other_are_told_so() {
    let all = on_all(threads(2), |mut ranks| {
        let error = ranks.receive(1 - ranks.rank(), FIRST_TAG, &"nothing").expect_err("nothing comes");
        let text = error.to_string();
        ranks.stop(&error, 1);
        text
    });
    assert!(all.iter().all(|text| text.contains("ranks wait for each other")), "{all:?}");
}

fn lost(links: Vec<Box<dyn Communicator + Send>>) {
    let all = on_all(links, |mut ranks| {
        if ranks.rank() == 1 {
            // messages that were sent before the end are received
            ranks.send(0, FIRST_TAG, vec![1]).expect("sent");
            return String::new();
        }
        let from = ranks.rank() + 1;
        let first = ranks.receive(from % 3, FIRST_TAG, &"1F0");
        let error = match first {
            Ok(_) => ranks.receive(1, FIRST_TAG, &"1F1").expect_err("it is gone"),
            Err(error) => error,
        };
        ranks.stop(&error, 1);
        error.to_string()
    });
    assert!(all[0].contains("rank 1 is gone") && all[0].contains("rank 0 waited for 1F1 from rank 1"), "{}", all[0]);
    assert!(all[2].contains("rank 1 is gone"), "{}", all[2]);
}

#[test]
fn the_rank_that_is_gone_is_named() {
    lost(threads(3));
}

#[cfg(unix)]
#[test]
fn a_connection_that_breaks_is_a_rank_that_is_gone() {
    let mut links = sockets("lost", 3);
    // a process that dies: its connections close without a goodbye
    let all = std::thread::scope(|scope| {
        let gone = links.remove(1);
        let one = |link: Box<dyn Communicator + Send>| {
            scope.spawn(move || {
                let mut ranks = Ranks::new(link, Duration::from_secs(5));
                let error = ranks.receive(1, FIRST_TAG, &"1F1").expect_err("it is gone");
                let text = error.to_string();
                ranks.stop(&error, 1);
                text
            })
        };
        let waiting: Vec<_> = links.into_iter().map(one).collect();
        drop(gone);
        waiting.into_iter().map(|t| t.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert!(
        all.iter().all(|text| text.contains("rank 1 is gone") || text.contains("stopped: rank 1 is gone")),
        "{all:?}"
    );
}

#[cfg(unix)]
#[test]
fn who_does_not_come_is_named() {
    let folder = std::env::temp_dir().join(format!("fulgurite-comm-{}-late", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let error = Socket::meet(&folder, 0, 2, Duration::from_millis(50)).err().expect("nobody comes");
    std::fs::remove_dir_all(&folder).expect("there");
    assert!(error.code() == "E771" && error.to_string().contains("rank 1"), "{error}");
}
