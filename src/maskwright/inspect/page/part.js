// The page as a part of another one, which gives the data and keeps the address.

export { draw, readAddress, settle, show };
