//! The Huffman code of header strings (RFC 7541 5.2, appendix B), decoded four bits at a step.
//!
//! The code is canonical: among codes of one length the symbols ascend, so the lengths say all of it. No code is
//! shorter than five bits, so four bits end one symbol at most.

use std::sync::LazyLock;

/// Appends what `code` stands for; false if it is no string in this code.
pub(super) fn decode(code: &[u8], out: &mut Vec<u8>) -> bool {
    let machine = &*MACHINE;
    let mut state = ROOT;
    for byte in code {
        for nibble in [byte >> 4, byte & 15] {
            let step = machine.steps[usize::from(state)][usize::from(nibble)];
            match step.symbol {
                Symbol::None => {}
                Symbol::Byte(symbol) => out.push(symbol),
                Symbol::Bad => return false,
            }
            state = step.state;
        }
    }
    machine.may_end[usize::from(state)]
}

/// States are the inner nodes of the code's tree, named by the bits since the last symbol.
struct HuffmanStates {
    steps: Vec<[HuffmanStep; 16]>,
    /// The bits since the last symbol are padding: fewer than eight, all ones.
    may_end: Vec<bool>,
}

#[derive(Clone, Copy)]
struct HuffmanStep {
    state: u8,
    symbol: Symbol,
}

#[derive(Clone, Copy)]
enum Symbol {
    None,
    Byte(u8),
    /// The end of the string as a symbol of its own, which is an error.
    Bad,
}

#[derive(Clone, Copy)]
enum HuffmanNode {
    Empty,
    Inner(u8),
    Leaf(Symbol),
}

impl HuffmanStates {
    fn new() -> Self {
        let tree = tree();
        let mut may_end = vec![false; tree.len()];
        let mut node = ROOT;
        for _ in 0..8 {
            may_end[usize::from(node)] = true;
            let HuffmanNode::Inner(next) = tree[usize::from(node)][1] else { break };
            node = next;
        }
        let steps = (0..tree.len()).map(|state| std::array::from_fn(|nibble| step(&tree, state, nibble)));
        Self { steps: steps.collect(), may_end }
    }
}

fn step(tree: &[[HuffmanNode; 2]], state: usize, nibble: usize) -> HuffmanStep {
    let (mut at, mut symbol) = (state, Symbol::None);
    for shift in (0..4).rev() {
        match tree[at][nibble >> shift & 1] {
            HuffmanNode::Inner(next) => at = usize::from(next),
            HuffmanNode::Leaf(found) => (at, symbol) = (usize::from(ROOT), found),
            HuffmanNode::Empty => unreachable!("the code is complete"),
        }
    }
    HuffmanStep { state: at as u8, symbol }
}

/// Returns the code as a tree; a complete code of 257 symbols has 256 inner nodes.
fn tree() -> Vec<[HuffmanNode; 2]> {
    let mut symbols: Vec<(u8, Symbol)> =
        (0..=255).map(|byte| (LENGTHS[usize::from(byte)], Symbol::Byte(byte))).collect();
    symbols.push((END_LENGTH, Symbol::Bad));
    symbols.sort_by_key(|(length, _)| *length);
    let mut tree = vec![[HuffmanNode::Empty; 2]];
    let (mut code, mut code_length) = (0u32, 0);
    for (length, symbol) in symbols {
        code <<= length - code_length;
        code_length = length;
        let mut at = usize::from(ROOT);
        for shift in (1..length).rev() {
            let bit = (code >> shift & 1) as usize;
            at = match tree[at][bit] {
                HuffmanNode::Inner(next) => usize::from(next),
                _ => {
                    tree.push([HuffmanNode::Empty; 2]);
                    let next = tree.len() - 1;
                    tree[at][bit] = HuffmanNode::Inner(next as u8);
                    next
                }
            };
        }
        tree[at][(code & 1) as usize] = HuffmanNode::Leaf(symbol);
        code += 1;
    }
    tree
}

static MACHINE: LazyLock<HuffmanStates> = LazyLock::new(HuffmanStates::new);

const ROOT: u8 = 0;
/// Bits of the string's end.
const END_LENGTH: u8 = 30;
/// Bits of each byte's code.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_complete() {
        let tree = tree();
        assert_eq!(tree.len(), 256);
        assert!(tree.iter().flatten().all(|node| !matches!(node, HuffmanNode::Empty)));
    }

    #[test]
    fn padding_is_short_and_all_ones_and_the_end_is_no_symbol() {
        let decoded = |code: &[u8]| {
            let mut out = Vec::new();
            decode(code, &mut out).then_some(out)
        };
        // 'a' is 00011.
        assert_eq!(decoded(&[0b0001_1111]), Some(b"a".to_vec()));
        assert_eq!(decoded(&[0b0001_1110]), None);
        assert_eq!(decoded(&[0b0001_1111, 0xff]), None);
        assert_eq!(decoded(&[0xff]), None);
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(decoded(&[]), Some(Vec::new()));
    }
}
