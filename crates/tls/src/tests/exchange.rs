//! Tests of data both ways: every suite, every cut, long transfers, resumption, names.

use super::*;

#[test]
fn every_suite_carries_data_both_ways() {
    for (versions, suite) in SUITES {
        let mut pair = Pair::new(client_with_suite(versions, suite));
        assert_eq!(pair.server.info().unwrap().suite, suite);
        for len in [1, 2, 300, PLAINTEXT_MAX - 1, PLAINTEXT_MAX, PLAINTEXT_MAX + 1, 100_000] {
            pair.at_server.clear();
            pair.at_client.clear();
            pair.client_sends(&pattern(len));
            pair.server_sends(&pattern(len));
            assert!(pair.at_server == pattern(len), "{suite:?} up {len}");
            assert!(pair.at_client == pattern(len), "{suite:?} down {len}");
        }
    }
}

#[test]
fn head_and_file_sealed_in_one_buffer_arrive_as_one_stream() {
    let mut pair = Pair::new(any_client(Versions::Tls12And13));
    let (head, body) = (b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), pattern(1 << 20));
    let layout = pair.server.layout().unwrap();
    let mut sent = 0;
    let mut buf = vec![0; 256 << 10];
    layout.copy_in(&mut buf, 0, head);
    let mut filled = head.len();
    while sent < body.len() {
        let plain_len = layout.plain_capacity(buf.len()).min(filled + body.len() - sent);
        for slot in layout.slots(filled..plain_len) {
            let len = slot.len();
            buf[slot].copy_from_slice(&body[sent..sent + len]);
            sent += len;
        }
        let control = pair.server.seal(&mut buf, plain_len).unwrap();
        assert!(control.is_empty());
        pair.deliver_to_client(&buf[..layout.sealed_len(plain_len)]).unwrap();
        filled = 0;
    }
    assert!(pair.at_client == [head, &body].concat());
}

#[test]
fn request_in_the_buffer_that_ends_the_handshake_is_not_lost() {
    for versions in [Versions::Tls13Only, Versions::Tls12Only] {
        let mut client = TlsSession::client(Arc::new(any_client(versions)), localhost()).unwrap();
        let mut server = TlsSession::server(server_config()).unwrap();
        let mut first_request = Vec::new();
        for _ in 0..4 {
            let mut upward = client.take_output();
            if client.info().is_some() {
                client.write(b"GET / HTTP/1.1\r\n\r\n").unwrap();
                upward.extend(client.take_output());
            }
            first_request.extend(received(&mut server, upward).unwrap());
            let downward = server.take_output();
            received(&mut client, downward).unwrap();
        }
        assert!(first_request.starts_with(b"GET / HTTP/1.1\r\n\r\n"), "{versions:?}");
    }
}

#[test]
fn handshake_and_data_survive_any_chunk_size() {
    for versions in [Versions::Tls13Only, Versions::Tls12Only] {
        for chunk_len in [1, 2, 3, 4, 5, 6, 7, 13, 64, 500, 1500] {
            let mut client = ClientConnection::new(Arc::new(any_client(versions)), localhost()).unwrap();
            let mut server = TlsSession::server(server_config()).unwrap();
            client.writer().write_all(&pattern(5000)).unwrap();
            let mut at_server = Vec::new();
            while at_server.len() < 5000 {
                let mut upward = Vec::new();
                while client.wants_write() {
                    client.write_tls(&mut upward).unwrap();
                }
                for chunk in upward.chunks(chunk_len) {
                    at_server.extend(received(&mut server, chunk.to_vec()).unwrap());
                }
                for chunk in server.take_output().chunks(chunk_len) {
                    client.read_tls(&mut &*chunk).unwrap();
                    client.process_new_packets().unwrap();
                }
            }
            assert!(at_server == pattern(5000), "{versions:?} chunks of {chunk_len}");
            assert_eq!(server.carried_len(), 0);
        }
    }
}

#[test]
fn records_cut_at_every_byte_are_opened_once() {
    for (versions, suite) in SUITES {
        let mut pair = Pair::new(client_with_suite(versions, suite));
        let mut cut = 0;
        loop {
            pair.client.writer().write_all(b"first").unwrap();
            let mut bytes = pair.client_output();
            pair.client.writer().write_all(b"second, longer").unwrap();
            bytes.extend(pair.client_output());
            if cut > bytes.len() {
                break;
            }
            pair.at_server.clear();
            pair.deliver_to_server(&bytes[..cut]).unwrap();
            pair.deliver_to_server(&bytes[cut..]).unwrap();
            assert_eq!(pair.at_server, b"firstsecond, longer", "{suite:?} cut at {cut}");
            assert_eq!(pair.server.carried_len(), 0);
            cut += 1;
        }
    }
}

#[test]
fn caller_without_room_gets_the_rest_later() {
    let mut pair = Pair::new(any_client(Versions::Tls12And13));
    let mut bytes = Vec::new();
    for request in [b"one", b"two", b"six"] {
        pair.client.writer().write_all(request).unwrap();
        bytes.extend(pair.client_output());
    }
    let mut receive = pair.server.receive(&mut bytes);
    assert!(matches!(receive.next(), Ok(Some(TlsEvent::Data(plain))) if plain == b"one"));
    let consumed = receive.consumed();
    pair.deliver_to_server(&bytes[consumed..]).unwrap();
    assert_eq!(pair.at_server, b"twosix");
}

#[test]
fn sessions_resume_by_ticket_and_not_after_two_rotations() {
    for versions in [Versions::Tls13Only, Versions::Tls12Only] {
        let tickets = Arc::new(TicketKeys::new().unwrap());
        let server = TlsConfig::new(&*STATE_DIR).load(Arc::clone(&tickets)).unwrap().config;
        // Another lane's, or a reload's, configuration with the same ticket keys.
        let reloaded = TlsConfig::new(&*STATE_DIR).load(Arc::clone(&tickets)).unwrap().config;
        let client = Arc::new(any_client(versions));
        let resumed = |server: &Arc<ServerConfig>| {
            let mut pair = Pair::with_server(Arc::clone(&client), Arc::clone(server));
            pair.assert_alive();
            pair.server.info().unwrap().resumed
        };
        assert!(!resumed(&server));
        assert!(resumed(&server), "{versions:?}");
        assert!(resumed(&reloaded), "{versions:?} after a reload");
        tickets.rotate().unwrap();
        tickets.rotate().unwrap();
        assert!(!resumed(&server), "{versions:?} after two rotations");
    }
}

#[test]
fn own_client_resumes_with_the_tickets_it_was_sent() {
    let config = Arc::new(any_client(Versions::Tls13Only));
    for expected in [false, true] {
        let mut client = TlsSession::client(Arc::clone(&config), localhost()).unwrap();
        let mut server = TlsSession::server(server_config()).unwrap();
        while client.has_output() || server.has_output() {
            received(&mut server, client.take_output()).unwrap();
            received(&mut client, server.take_output()).unwrap();
        }
        assert_eq!(client.info().unwrap().resumed, expected);
        assert_eq!(server.info().unwrap().resumed, expected);
    }
}

#[test]
fn own_client_talks_to_rustls_server() {
    for versions in [Versions::Tls13Only, Versions::Tls12Only] {
        let mut client = TlsSession::client(Arc::new(any_client(versions)), localhost()).unwrap();
        let mut server = rustls::ServerConnection::new(server_config()).unwrap();
        let (mut at_client, mut at_server) = (Vec::new(), Vec::new());
        for round in 0..6 {
            if round == 3 {
                client.write(&pattern(40_000)).unwrap();
                server.writer().write_all(&pattern(30_000)).unwrap();
            }
            let upward = client.take_output();
            let mut upward = upward.as_slice();
            while !upward.is_empty() {
                server.read_tls(&mut upward).unwrap();
                let state = server.process_new_packets().unwrap();
                let mut plain = vec![0; state.plaintext_bytes_to_read()];
                server.reader().read_exact(&mut plain).unwrap();
                at_server.extend(plain);
            }
            let mut downward = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut downward).unwrap();
            }
            at_client.extend(received(&mut client, downward).unwrap());
        }
        assert!(at_client == pattern(30_000) && at_server == pattern(40_000), "{versions:?}");
    }
}

#[test]
fn session_tells_version_alpn_and_server_name() {
    let pair = Pair::new(any_client(Versions::Tls13Only));
    let info = pair.server.info().unwrap();
    assert_eq!(info.version, TlsVersion::Tls13);
    assert_eq!(info.alpn, Some(Alpn::Http11));
    assert_eq!(info.server_name.as_deref(), Some("localhost"));

    let mut config = any_client(Versions::Tls12Only);
    config.alpn_protocols.clear();
    config.enable_sni = false;
    let pair = Pair::new(config);
    let info = pair.server.info().unwrap();
    assert_eq!((info.version, info.alpn, info.server_name.clone()), (TlsVersion::Tls12, None, None));
}

#[test]
fn http2_wins_where_the_client_offers_both() {
    let both = [Alpn::Http11, Alpn::H2];
    let config = client_config(&ClientTrust::AnyCertificate, Versions::Tls12And13, &both).unwrap();
    assert_eq!(Pair::new(config).server.info().unwrap().alpn, Some(Alpn::H2));
}

#[test]
fn client_without_a_common_protocol_gets_an_alert() {
    let mut config = any_client(Versions::Tls12And13);
    config.alpn_protocols = vec![b"imap".to_vec()];
    let mut client = ClientConnection::new(Arc::new(config), localhost()).unwrap();
    let mut server = TlsSession::server(server_config()).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    assert!(matches!(received(&mut server, hello), Err(TlsError::Handshake(_))));
    client.read_tls(&mut &*server.take_output()).unwrap();
    let expected = rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol);
    assert_eq!(client.process_new_packets().unwrap_err(), expected);
}

#[test]
fn fastest_cipher_order_picks_aes_128_and_client_order_does_not() {
    let tickets = Arc::new(TicketKeys::new().unwrap());
    for (cipher_order, expected) in [
        (CipherOrder::Fastest, CipherSuite::TLS13_AES_128_GCM_SHA256),
        (CipherOrder::Client, CipherSuite::TLS13_AES_256_GCM_SHA384),
    ] {
        let config = TlsConfig { cipher_order, ..TlsConfig::new(&*STATE_DIR) };
        let server = config.load(Arc::clone(&tickets)).unwrap().config;
        let pair = Pair::with_server(Arc::new(any_client(Versions::Tls12And13)), server);
        assert_eq!(pair.server.info().unwrap().suite, expected);
    }
}
