//! The numbers of attempts in the file, by those that the scheduler gives them.

/// So many runs are remembered. There is a new one only after entries were lost, or another program has written.
const MOST_RUNS: usize = 10_000;

/// Attempts that follow each other in both numbers.
#[derive(Clone, Copy, Debug)]
struct Run {
    sequence: u64,
    id: i64,
    len: u64,
}

impl Run {
    fn end(&self) -> u64 {
        self.sequence + self.len
    }
}

/// The ids of attempts by their [sequences](plimsoll_engine::AttemptContext::sequence), which ascend.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    runs: Vec<Run>,
}

impl Sequences {
    /// Adds an attempt. It may have been added before, if it could not be written then.
    pub(crate) fn add(&mut self, sequence: u64, id: i64) {
        while let Some(last) = self.runs.last_mut() {
            if last.sequence < sequence {
                last.len = last.len.min(sequence - last.sequence);
                break;
            }
            self.runs.pop();
        }
        match self.runs.last_mut() {
            Some(last)
                if last.end() == sequence && last.id.checked_add_unsigned(last.len) == Some(id) =>
            {
                last.len += 1;
            }
            _ => self.runs.push(Run { sequence, id, len: 1 }),
        }
        if MOST_RUNS < self.runs.len() {
            self.runs.drain(..MOST_RUNS / 2);
        }
    }

    /// The id of an attempt; `None` if it was lost or deleted.
    pub(crate) fn id(&self, sequence: u64) -> Option<i64> {
        let after = self.runs.partition_point(|run| run.sequence <= sequence);
        let run = self.runs.get(after.checked_sub(1)?)?;
        let place = (sequence < run.end()).then(|| sequence - run.sequence)?;
        run.id.checked_add_unsigned(place)
    }

    /// Forgets attempts with a lower id.
    pub(crate) fn forget_before(&mut self, id: i64) {
        for run in &mut self.runs {
            let gone = u64::try_from(id.saturating_sub(run.id)).unwrap_or(0).min(run.len);
            run.sequence += gone;
            run.id = run.id.saturating_add_unsigned(gone);
            run.len -= gone;
        }
        self.runs.retain(|run| 0 < run.len);
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(sequences: &Sequences) -> Vec<(u64, i64)> {
        (0..100).filter_map(|sequence| Some((sequence, sequences.id(sequence)?))).collect()
    }

    #[test]
    fn attempts_are_found_unless_they_were_lost_or_deleted() {
        let mut sequences = Sequences::default();
        assert_eq!(known(&sequences), []);
        for (sequence, id) in [(1, 11), (2, 12), (3, 13), (7, 14), (8, 15), (9, 30), (10, 31)] {
            sequences.add(sequence, id);
        }
        assert_eq!(sequences.runs.len(), 3);
        let all = [(1, 11), (2, 12), (3, 13), (7, 14), (8, 15), (9, 30), (10, 31)];
        assert_eq!(known(&sequences), all);
        for (before, left) in [(5, 7), (12, 6), (15, 3), (31, 1), (99, 0)] {
            sequences.forget_before(before);
            assert_eq!(known(&sequences), all[7 - left..]);
        }
    }

    #[test]
    fn attempts_that_could_not_be_written_get_other_ids() {
        let mut sequences = Sequences::default();
        for (sequence, id) in [(1, 11), (2, 12), (5, 13), (6, 14)] {
            sequences.add(sequence, id);
        }
        for (sequence, id) in [(2, 22), (5, 23), (6, 24)] {
            sequences.add(sequence, id);
        }
        assert_eq!(known(&sequences), [(1, 11), (2, 22), (5, 23), (6, 24)]);
    }

    #[test]
    fn few_runs_are_remembered() {
        let mut sequences = Sequences::default();
        for sequence in 0..30_000 {
            sequences.add(2 * sequence, 7);
        }
        assert!(sequences.runs.len() <= MOST_RUNS);
        assert_eq!(sequences.id(59_998), Some(7));
    }
}
