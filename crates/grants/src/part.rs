//! How much of what is bounded one client may have.

/// Whether a client who has `own` of something may have one more while so much of it is free: three times what is free. So one takes
/// three quarters at most, two take three sevenths each, and a newcomer always finds some.
pub fn may_have_more(own: usize, free: usize) -> bool {
    own < TIMES * free
}

const TIMES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_three_quarters_at_most_and_newcomers_find_some() {
        const ALL: usize = 4096;
        let mut own = [0; 3];
        for client in 0..own.len() {
            while may_have_more(own[client], ALL - own.iter().sum::<usize>()) {
                own[client] += 1;
            }
        }
        assert_eq!(own, [3072, 768, 192]);
    }
}
