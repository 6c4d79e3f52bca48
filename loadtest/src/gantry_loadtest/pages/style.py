"""The style of report pages: light and dark, and the colours of charts. Pure."""

_COLOURS = """
:root{color-scheme:light dark;--ink:#1c1e21;--soft:#667;--paper:#fff;--card:#f5f6f8;--line:#d8dbe0;--a:#2563eb;--b:#d9480f;--c:#2b8a3e;--d:#9c36b5;--e:#0b7285;--f:#a17c00;--g:#868e96;--mark:#c92a2a66}
@media (prefers-color-scheme:dark){:root{--ink:#e7e9ec;--soft:#9aa3af;--paper:#14161a;--card:#1d2026;--line:#353a43;--a:#7aa7ff;--b:#ff9a5c;--c:#69db7c;--d:#da77f2;--e:#3bc9db;--f:#ffd43b;--g:#adb5bd;--mark:#ff878766}}
"""
_CHARTS = """
svg{width:100%;height:auto}.grid{stroke:var(--line)}.tick{fill:var(--soft);font-size:11px}.bar{fill:var(--a)}
.line{fill:none;stroke-width:1.8}.s0{stroke:var(--a);--k:var(--a)}.s1{stroke:var(--b);--k:var(--b)}.s2{stroke:var(--c);--k:var(--c)}.s3{stroke:var(--d);--k:var(--d)}.s4{stroke:var(--e);--k:var(--e)}.s5{stroke:var(--f);--k:var(--f)}.s6{stroke:var(--g);--k:var(--g)}
.mark{stroke:var(--mark);stroke-dasharray:3 2}
.dot{fill:var(--k);stroke:none}
"""
STYLE = (
    _COLOURS
    + """
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:780px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .5rem}.soft{color:var(--soft)}
.verdict{display:inline-block;padding:.1rem .7rem;border-radius:1rem;font-weight:600;color:var(--paper)}.pass{background:var(--c)}.fail{background:var(--b)}.notSeen{background:var(--f)}
figure{margin:1rem 0;background:var(--card);border-radius:8px;padding:.7rem}figcaption{font-weight:600;margin-bottom:.3rem}
.key{font-weight:400;margin-left:.8rem}.key::before{content:"";display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em;background:var(--k)}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line)}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
code{background:var(--card);padding:.1rem .3rem;border-radius:4px}
"""
    + _CHARTS
)
PICTURE_STYLE = (
    _COLOURS
    + _CHARTS
    + ".paper{fill:var(--card)}.title{fill:var(--ink);font-weight:600;font-size:14px}text{font-family:system-ui,sans-serif}"
)
"""Of a chart that stands alone as a picture."""
