python sionna_trace.py street.csv
adascale schedule --scenario mnist --gains street.csv \
  --policy learn:budget_mode=hard --nu 0.04 --out eta.csv
adascale epsilon --scenario mnist --eta eta.csv --delta 1e-5
echo "for one sample of one device, against a server" \
  "with one receive chain that cannot cancel noise"
