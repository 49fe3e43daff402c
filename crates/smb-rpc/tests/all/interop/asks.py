"""impacket asks a server at 127.0.0.1, whose ports are the arguments: srvsvc, wkssvc, lsarpc; who asks is an administrator."""

import sys

from impacket.dcerpc.v5 import lsad, lsat, srvs, transport, wkst
from impacket.dcerpc.v5.dtypes import MAXIMUM_ALLOWED
from impacket.dcerpc.v5.rpcrt import DCERPCException


def connected(port, interface):
    dce = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:127.0.0.1[{port}]").get_dce_rpc()
    dce.connect()
    dce.bind(interface)
    return dce


def refused(what, *arguments, **named):
    try:
        what(*arguments, **named)
    except DCERPCException as error:
        return str(error).upper()
    raise AssertionError(f"{what.__name__} is not refused")


def text(value):
    return value.rstrip("\0")


dce = connected(sys.argv[1], srvs.MSRPC_UUID_SRVS)
for level, kind in [(0, "Level0"), (1, "Level1"), (2, "Level2"), (501, "Level501"), (502, "Level502")]:
    answer = srvs.hNetrShareEnum(dce, level)
    entries = answer["InfoStruct"]["ShareInfo"][kind]["Buffer"]
    first = "shi%d_" % level
    names = [text(entry[first + "netname"]) for entry in entries]
    assert names == ["data", "H\u00e4user", "IPC$"], names
    assert answer["TotalEntries"] == 3
    if level in (2, 502):
        assert text(entries[0][first + "path"]) == "/srv/data"
        assert entries[1][first + "max_uses"] == 5
    if level == 1:
        assert entries[2]["shi1_type"] == 0x80000003
    one = srvs.hNetrShareGetInfo(dce, "DATA\0", level)["InfoStruct"]["ShareInfo%d" % level]
    assert text(one[first + "netname"]) == "data"
for level in (100, 101, 102):
    server = srvs.hNetrServerGetInfo(dce, level)["InfoStruct"]["ServerInfo%d" % level]
    assert text(server["sv%d_name" % level]) == "FILES"
assert text(server["sv102_comment"]) == "for tests"
assert srvs.hNetrRemoteTOD(dce)["BufferPtr"]["tod_year"] == 2000
assert "ACCESS_DENIED" in refused(srvs.hNetrSessionEnum, dce, "\0", "\0", 10)
# As what, differs with the version of impacket: 0.10 sends containers that are none.
refused(srvs.hNetrFileEnum, dce, "\0", "\0", 2)
assert "ACCESS_DENIED" in refused(srvs.hNetrShareDel, dce, "data\0")
assert "RNG" in refused(srvs.hNetprPathType, dce, "x\0", 0)

dce = connected(sys.argv[2], wkst.MSRPC_UUID_WKST)
for level in (100, 101, 102):
    machine = wkst.hNetrWkstaGetInfo(dce, level)["WkstaInfo"]["WkstaInfo%d" % level]
    assert text(machine["wki%d_computername" % level]) == "FILES"
    assert text(machine["wki%d_langroup" % level]) == "WORKGROUP"
refused(wkst.hNetrWkstaUserEnum, dce, 1)

dce = connected(sys.argv[3], lsat.MSRPC_UUID_LSAT)
handle = lsad.hLsarOpenPolicy2(dce, MAXIMUM_ALLOWED | lsat.POLICY_LOOKUP_NAMES)["PolicyHandle"]
kind = lsad.POLICY_INFORMATION_CLASS.PolicyAccountDomainInformation
account = lsad.hLsarQueryInformationPolicy2(dce, handle, kind)["PolicyInformation"]["PolicyAccountDomainInfo"]
domain = account["DomainSid"].formatCanonical()
assert account["DomainName"] == "FILES" and domain.startswith("S-1-5-21-")
kind = lsad.POLICY_INFORMATION_CLASS.PolicyDnsDomainInformation
dns = lsad.hLsarQueryInformationPolicy2(dce, handle, kind)["PolicyInformation"]["PolicyDnsDomainInfo"]
assert dns["Name"] == "WORKGROUP"
names = ["alice", "FILES\\staff", "Everyone"]
for lookup in (lsat.hLsarLookupNames, lsat.hLsarLookupNames2):
    answer = lookup(dce, handle, names)
    found = answer["TranslatedSids"]["Sids"]
    domains = [entry["Name"] or "" for entry in answer["ReferencedDomains"]["Domains"]]
    assert domains == ["FILES", ""], domains
    assert [entry["RelativeId"] for entry in found] == [1999, 2**32 - 1, 0]
    assert [entry["DomainIndex"] for entry in found] == [0, 0, 1]
answer = lsat.hLsarLookupNames3(dce, handle, names)
sids = [entry["Sid"].formatCanonical() for entry in answer["TranslatedSids"]["Sids"]]
assert sids == [domain + "-1999", domain + "-4294967295", "S-1-1-0"], sids
for lookup in (lsat.hLsarLookupSids, lsat.hLsarLookupSids2):
    answer = lookup(dce, handle, sids + ["S-1-5-32-544", "S-1-22-1-77"])
    back = [entry["Name"] for entry in answer["TranslatedNames"]["Names"]]
    assert back == ["alice", "staff", "Everyone", "Administrators", "77"], back
assert "NONE_MAPPED" in refused(lsat.hLsarLookupNames, dce, handle, ["nobody"])
assert "SOME_NOT_MAPPED" in refused(lsat.hLsarLookupNames, dce, handle, ["alice", "nobody"])
name = lsat.hLsarGetUserName(dce)
assert name["UserName"] == "root"
lsad.hLsarClose(dce, handle)
assert "CONTEXT_MISMATCH" in refused(lsad.hLsarClose, dce, handle)
print("all is as it should be")
