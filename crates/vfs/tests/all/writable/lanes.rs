//! Lanes that end while they change something: what the kernel is at work on for them holds its permit to the end.

use std::time::Duration;

use lane::backend::sim::{Config, World, seeds};
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use vfs::CreateOptions;

use super::changes::{text, write};
use super::{Process, name, nobody, root};

#[test]
fn no_write_lands_outside_its_permit_though_its_lane_ends() {
    seeds(1000, |seed| {
        let mut config = Config::rough();
        (config.fs.slow, config.fs.slow_delay) = (0.5, Duration::from_millis(3));
        let world = World::new(seed, config);
        let process = Process::new(&world, 3);
        for lane in [1, 2] {
            let opening = process.clone();
            process.host.spawn_on(lane, async move {
                let root = root(&opening.volume()).await;
                let how = CreateOptions { exclusive: false, mode: 0o644 };
                let Ok(made) = root.create(&nobody(), name("page"), how).await else { return };
                loop {
                    let _ = write(&made.writer, 0, "from a lane that ends").await;
                    time::sleep(Duration::from_micros(100)).await;
                }
            });
        }
        let (changing, mut rng) = (process.clone(), SmallRng::seed_from_u64(seed));
        world.block_on(&process.host, async move {
            let volume = changing.volume();
            let how = CreateOptions { exclusive: false, mode: 0o644 };
            let made = root(&volume).await.create(&nobody(), name("page"), how).await.unwrap();
            for lane in [1, 2] {
                time::sleep(Duration::from_micros(rng.random_range(0..8000))).await;
                changing.host.end_lane(lane);
            }
            while write(&made.writer, 0, "from the lane that stays").await.is_err() {}
            for _ in 0..10 {
                assert_eq!(text(&volume, "page").await, "from the lane that stays");
                time::sleep(Duration::from_millis(1)).await;
            }
        });
        world.end();
        assert_eq!(process.objects.in_use(), 0, "an object outlived its users");
    });
}
