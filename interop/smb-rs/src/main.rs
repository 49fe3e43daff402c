//! smb-rs (MIT) uses the share `tree` of a server at 127.0.0.1 to 127.0.0.4: over four channels of one session, and encrypted over one
//! connection. Port, user and password are the arguments.
//!
//! Encrypted it has one channel alone: 0.12 encrypts the request that would bind another, which MS-SMB2 3.2.4.1.8 forbids.

use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::str::FromStr;
use std::task::Poll;

use smb::connection::{EncryptionMode, MultiChannelConfig};
use smb::resource::Resource;
use smb::{
    Client, ClientConfig, ConnectionConfig, CreateOptions, File, FileAccessMask, FileAttributes,
    FileCreateArgs, UncPath,
};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const CHANNELS: usize = 4;
const BLOCK: usize = 256 << 10;
/// A block of each channel at a time.
const ROUND: usize = CHANNELS * BLOCK;
/// The last round is no whole one.
const LENGTH: usize = 8 * ROUND + 2 * BLOCK + 4321;

#[tokio::main]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, user, password] = &arguments[..] else {
        return Err("port, user and password are wanted".into());
    };
    let ways = [
        (EncryptionMode::Allowed, MultiChannelConfig::Always, CHANNELS),
        (EncryptionMode::Required, MultiChannelConfig::Disabled, 1),
    ];
    for (encryption_mode, multichannel, wanted) in ways {
        let connection = ConnectionConfig {
            port: Some(port.parse()?),
            encryption_mode,
            multichannel,
            smb2_only_negotiate: true,
            ..ConnectionConfig::default()
        };
        let client = Client::new(ClientConfig { dfs: false, connection, ..ClientConfig::default() });
        let share = UncPath::from_str(r"\\127.0.0.1\tree")?;
        client.share_connect(&share, user, password.clone()).await?;
        use_channels(&client, &share, wanted).await?;
        client.close().await?;
    }
    Ok(())
}

/// Writes a file block by block, each by the channel whose turn it is, and reads each by another one.
async fn use_channels(client: &Client, share: &UncPath, wanted: usize) -> Outcome {
    let name = &format!("smb-rs-{wanted}");
    let mut channels: Vec<u32> = client.get_channels(share).await?.into_keys().collect();
    channels.sort_unstable();
    if channels.len() != wanted {
        return Err(format!("{name}: {wanted} channels are wanted, and there are {channels:?}").into());
    }
    let bytes: Vec<u8> = (0..LENGTH).map(|at| (at * 31 + at / 253) as u8).collect();
    let path = share.clone().with_path(name);
    let how = FileCreateArgs::make_overwrite(FileAttributes::new(), CreateOptions::new());
    let file = opened(client.create_file(&path, &how).await?)?;
    for (round, blocks) in bytes.chunks(ROUND).enumerate() {
        let written = blocks.chunks(BLOCK).enumerate().map(|(at, block)| {
            let offset = (round * ROUND + at * BLOCK) as u64;
            file.write_block(block, offset, Some(channels[at % wanted]))
        });
        for (block, written) in blocks.chunks(BLOCK).zip(together(written).await) {
            if written? != block.len() {
                return Err(format!("{name}: less was written than a block").into());
            }
        }
    }
    file.flush().await?;
    file.close().await?;
    let how = FileCreateArgs::make_open_existing(FileAccessMask::new().with_generic_read(true));
    let file = opened(client.create_file(&path, &how).await?)?;
    for (round, blocks) in bytes.chunks(ROUND).enumerate() {
        let mut read: Vec<Vec<u8>> = blocks.chunks(BLOCK).map(|block| vec![0; block.len()]).collect();
        let reading = read.iter_mut().enumerate().map(|(at, block)| {
            let offset = (round * ROUND + at * BLOCK) as u64;
            file.read_block(block, offset, Some(channels[(at + 1) % wanted]), false)
        });
        let lengths: Vec<_> = together(reading).await.into_iter().collect::<Result<_, _>>()?;
        if lengths.into_iter().sum::<usize>() != blocks.len() || read.concat() != blocks {
            return Err(format!("{name}: other bytes came back in round {round}").into());
        }
    }
    file.close().await?;
    println!("{name}: {LENGTH} bytes there and back over {wanted} channels");
    Ok(())
}

fn opened(resource: Resource) -> Outcome<File> {
    match resource {
        Resource::File(file) => Ok(file),
        _ => Err("it is no file".into()),
    }
}

/// The outputs of futures that go on at once, in their order.
async fn together<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    let all = std::future::poll_fn(|cx| {
        for (future, output) in &mut running {
            if output.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(cx)
            {
                *output = Some(ready);
            }
        }
        if running.iter().all(|(_, output)| output.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    });
    pin!(all).await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}
