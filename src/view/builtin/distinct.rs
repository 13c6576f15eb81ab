//! `_approx_count_distinct`: HyperLogLog++ over the SHA-1 of each emitted key.
//!
//! The hash is over the key in Erlang's external term format, as CouchDB's is, so the answers are
//! equal to the digit. Its first 11 bits choose a register; the register keeps the longest run of
//! zeros, plus one, that any key had behind them. Distinct are keys as they were emitted: keys that
//! collate alike, such as `1` and `1.0`, count twice.
//!
//! ```text
//!   nothing                     no row
//!   (gap value)...              few registers: indexes as varints from the one before, values
//!   1,537 bytes: 255, 1,536     many: all registers at 6 bits, the first in the lowest bits
//! ```
//!
//! (639 registers in the first form take at most 1,294 bytes, because at most 15 gaps need a second
//! byte. So the length tells the forms apart.)
//!
//! Invariant: the form follows from the registers alone, and those from the set of keys.

use super::broken;
use crate::codec::{Reader, put_varint};
use crate::error::Result;
use crate::mark;

/// Bits of the hash that choose a register.
const PRECISION: u32 = 11;

const REGISTER_COUNT: usize = 1 << PRECISION;

/// Registers from which on all are stored.
const DENSE_MIN: usize = 640;

/// The first byte of a reduction that holds all registers.
const DENSE: u8 = 255;

/// Bits of a stored register.
const REGISTER_BITS: usize = 6;

/// Estimates up to here are taken from the registers that are still zero (the paper's threshold
/// for 11 bits).
const LINEAR_MAX: f64 = 1800.0;

/// Table entries around an estimate over whose bias the mean is taken.
const NEIGHBOUR_COUNT: usize = 6;

/// Keys counted so far, as registers.
pub(super) struct Distinct {
    registers: Box<[u8; REGISTER_COUNT]>,
}

impl Distinct {
    pub(super) fn new() -> Distinct {
        Distinct { registers: Box::new([0; REGISTER_COUNT]) }
    }

    /// Takes in a key by its hash.
    // spec: REDUCE-9
    pub(super) fn add_hash(&mut self, hash: &[u8; 20]) {
        let [a, b, c, d, e, f, g, h, ..] = *hash;
        let bits = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let index = (bits >> (u64::BITS - PRECISION)) as usize;
        let rest = bits << PRECISION | 1 << (PRECISION - 1);
        let zeros = if mark::planted("distinct-without-the-one") { 0 } else { 1 };
        self.raise(index, rest.leading_zeros() as u8 + zeros);
    }

    fn raise(&mut self, index: usize, value: u8) {
        if let Some(register) = self.registers.get_mut(index) {
            *register = value.max(*register);
        }
    }

    /// Takes in a reduction.
    pub(super) fn add_part(&mut self, part: &[u8]) -> Result<()> {
        self.read(part).ok_or_else(|| broken("_approx_count_distinct"))
    }

    fn read(&mut self, part: &[u8]) -> Option<()> {
        if let [DENSE, packed @ ..] = part
            && packed.len() == REGISTER_COUNT * REGISTER_BITS / 8
        {
            for index in 0..REGISTER_COUNT {
                self.raise(index, packed_at(packed, index)?);
            }
            return Some(());
        }
        let mut reader = Reader::new(part);
        let mut next = 0;
        while !reader.is_empty() {
            let index = usize::try_from(reader.varint()?).ok()?.checked_add(next)?;
            self.raise(index, reader.u8()?);
            next = index.checked_add(1)?;
        }
        Some(())
    }

    /// Appends the stored form.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let filled = self.registers.iter().filter(|&&value| value > 0).count();
        if filled >= DENSE_MIN {
            mark::hit("distinct-dense");
            out.push(DENSE);
            for four in self.registers.chunks_exact(4) {
                let packed = four
                    .iter()
                    .rev()
                    .fold(0u32, |bits, &value| bits << REGISTER_BITS | u32::from(value.min(63)));
                let [one, two, three, _] = packed.to_le_bytes();
                out.extend([one, two, three]);
            }
            return;
        }
        let mut next = 0;
        for (index, &value) in self.registers.iter().enumerate().filter(|(_, value)| **value > 0) {
            put_varint(out, (index - next) as u64);
            out.push(value);
            next = index + 1;
        }
    }

    /// The estimate, rounded.
    // spec: REDUCE-9
    pub(super) fn estimate(&self) -> i64 {
        let count = REGISTER_COUNT as f64;
        let sum: f64 = self.registers.iter().map(|&value| (-f64::from(value)).exp2()).sum();
        let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
        let biased = raw <= 5.0 * count && !mark::planted("distinct-bias-kept");
        let corrected = if biased { raw - bias(raw) } else { raw };
        let zeros = self.registers.iter().filter(|&&value| value == 0).count();
        let linear = if zeros == 0 { corrected } else { count * (count / zeros as f64).ln() };
        (if linear <= LINEAR_MAX { linear } else { corrected }).round() as i64
    }
}

/// The register at `index` among packed ones: four in three bytes.
fn packed_at(packed: &[u8], index: usize) -> Option<u8> {
    let four = packed.chunks_exact(3).nth(index / 4)?;
    let bits = u32::from_le_bytes([*four.first()?, *four.get(1)?, *four.get(2)?, 0]);
    Some((bits >> (index % 4 * REGISTER_BITS)) as u8 & 63)
}

/// How far off raw estimates near `raw` were found to be.
fn bias(raw: f64) -> f64 {
    let mut nearest: Vec<(f64, f64)> = RAW_ESTIMATES
        .iter()
        .enumerate()
        .map(|(index, estimate)| {
            let counted = (index as f64 * COUNTED_STEP).ceil().max(1.0);
            ((raw - estimate).powi(2), estimate - counted)
        })
        .collect();
    nearest.sort_by(|one, two| one.0.total_cmp(&two.0));
    nearest.iter().take(NEIGHBOUR_COUNT).map(|(_, bias)| bias).sum::<f64>() / NEIGHBOUR_COUNT as f64
}

/// How many more distinct values each entry of [`RAW_ESTIMATES`] was measured with than the one
/// before; the first one was measured with one.
const COUNTED_STEP: f64 = 51.2;

/// Mean raw estimates for 11 bits, measured (Heule, Nunkesser, Hall: HyperLogLog in practice, 2013,
/// appendix).
const RAW_ESTIMATES: [f64; 201] = [
    1477.0, 1501.6014, 1526.5802, 1551.7942, 1577.3042, 1603.2062, 1629.8402, 1656.2292, 1682.9462,
    1709.9926, 1737.3026, 1765.4252, 1793.0578, 1821.6092, 1849.626, 1878.5568, 1908.527,
    1937.5154, 1967.1874, 1997.3878, 2027.37, 2058.1972, 2089.5728, 2120.1012, 2151.9668, 2183.292,
    2216.0772, 2247.8578, 2280.6562, 2313.041, 2345.714, 2380.3112, 2414.1806, 2447.9854, 2481.656,
    2516.346, 2551.5154, 2586.8378, 2621.7448, 2656.6722, 2693.5722, 2729.1462, 2765.4124,
    2802.8728, 2838.898, 2876.408, 2913.4926, 2951.4938, 2989.6776, 3026.282, 3065.7704, 3104.1012,
    3143.7388, 3181.6876, 3221.1872, 3261.5048, 3300.0214, 3339.806, 3381.409, 3421.4144,
    3461.4294, 3502.2286, 3544.651, 3586.6156, 3627.337, 3670.083, 3711.1538, 3753.5094, 3797.01,
    3838.6686, 3882.1678, 3922.8116, 3967.9978, 4009.9204, 4054.3286, 4097.5706, 4140.6014,
    4185.544, 4229.5976, 4274.583, 4316.9438, 4361.672, 4406.2786, 4451.8628, 4496.1834, 4543.505,
    4589.1816, 4632.5188, 4678.2294, 4724.8908, 4769.0194, 4817.052, 4861.4588, 4910.1596,
    4956.4344, 5002.5238, 5048.13, 5093.6374, 5142.8162, 5187.7894, 5237.3984, 5285.6078,
    5331.0858, 5379.1036, 5428.6258, 5474.6018, 5522.7618, 5571.5822, 5618.59, 5667.9992, 5714.88,
    5763.454, 5808.6982, 5860.3644, 5910.2914, 5953.571, 6005.9232, 6055.1914, 6104.5882,
    6154.5702, 6199.7036, 6251.1764, 6298.7596, 6350.0302, 6398.061, 6448.4694, 6495.933,
    6548.0474, 6597.7166, 6646.9416, 6695.9208, 6742.6328, 6793.5276, 6842.1934, 6894.2372,
    6945.3864, 6996.9228, 7044.2372, 7094.1374, 7142.2272, 7192.2942, 7238.8338, 7288.9006,
    7344.0908, 7394.8544, 7443.5176, 7490.4148, 7542.9314, 7595.6738, 7641.9878, 7694.3688,
    7743.0448, 7797.522, 7845.53, 7899.594, 7950.3132, 7996.455, 8050.9442, 8092.9114, 8153.1374,
    8197.4472, 8252.8278, 8301.8728, 8348.6776, 8401.4698, 8453.551, 8504.6598, 8553.8944,
    8604.1276, 8657.6514, 8710.3062, 8758.908, 8807.8706, 8862.1702, 8910.4668, 8960.77, 9007.2766,
    9063.164, 9121.0534, 9164.1354, 9218.1594, 9267.767, 9319.0594, 9372.155, 9419.7126, 9474.3722,
    9520.1338, 9572.368, 9622.7702, 9675.8448, 9726.5396, 9778.7378, 9827.6554, 9878.1922,
    9928.7782, 9978.3984, 10026.578, 10076.5626, 10137.1618, 10177.5244, 10229.9176,
];
